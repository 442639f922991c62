package engine

import "container/heap"

// A ledger holds what was settled without a step, by the frame that it rests on, until that frame may be acknowledged. Frames
// come in any order: a buffer may hold the kernels of launches in reverse.
type ledger struct {
	entries map[uint64]*entry
	frames  frameHeap // those of the entries
	latest  *entry    // that was added to last
}

// An entry is what rests on one frame.
type entry struct {
	frame   uint64
	settled Unattributed
}

// entryBytes is about what an entry takes.
const entryBytes = 96

// note enters what was settled without a step and rests on a frame. That is the frame of a record's launch where it is known: a
// record that comes again after a restart, whose launch lies before the snapshot, counts for nothing, so it must have been counted
// when that launch's frame was acknowledged.
func (l *ledger) note(frame uint64, settled Unattributed) {
	if settled == (Unattributed{}) {
		return
	}
	if l.latest == nil || l.latest.frame != frame {
		e := l.entries[frame]
		if e == nil {
			if l.entries == nil {
				l.entries = map[uint64]*entry{}
			}
			e = &entry{frame: frame}
			l.entries[frame] = e
			heap.Push(&l.frames, frame)
		}
		l.latest = e
	}
	l.latest.settled.add(settled)
}

// take adds what rests on frames up to one to sum, and forgets it.
func (l *ledger) take(upTo uint64, sum *Unattributed) {
	for l.frames.Len() > 0 && l.frames.frames[0] <= upTo {
		frame := heap.Pop(&l.frames).(uint64)
		sum.add(l.entries[frame].settled)
		delete(l.entries, frame)
		l.latest = nil
	}
}

// bytes is about what the ledger takes.
func (l *ledger) bytes() int { return entryBytes * len(l.entries) }

// A frameHeap has the lowest frame first.
type frameHeap struct {
	frames []uint64
	work   int // comparisons and swaps so far: a test holds them to n log n
}

func (h *frameHeap) Len() int { return len(h.frames) }

func (h *frameHeap) Less(i, k int) bool {
	h.work++
	return h.frames[i] < h.frames[k]
}

func (h *frameHeap) Swap(i, k int) {
	h.work++
	h.frames[i], h.frames[k] = h.frames[k], h.frames[i]
}

func (h *frameHeap) Push(x any) { h.frames = append(h.frames, x.(uint64)) }

func (h *frameHeap) Pop() any {
	n := len(h.frames) - 1
	last := h.frames[n]
	h.frames = h.frames[:n]
	return last
}
