package link

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/kernhes/kernhes/internal/sender"
)

// A frame waits for its acknowledgement.
type frame struct {
	number uint64
	bytes  []byte
}

// A husk is what is left of a frame that was dropped after it had been sent: whether it is lost
// shows when it is acknowledged, or when a collector comes that never received it.
type husk struct {
	number uint64
	loss   sender.Loss
	told   bool // it is of a LOST: that loss has been counted
}

// A queue is the frames of a link that the collector has not acknowledged, as shim/transport/queue.c keeps
// them.
type queue struct {
	wire   *sender.Sender
	frames []frame // in order of their numbers
	husks  []husk  // of frames before those, likewise
	bytes  int     // of all frames
	sent   uint64  // the last frame that was sent, on this connection or as the collector says
	losses []sender.Loss
	lost   Lost
}

// Lost is how much was lost at the bound, by all connections together.
type Lost struct{ Kernels, Copies, Events uint64 }

func kind(f frame) uint16 { return binary.LittleEndian.Uint16(f.bytes[4:]) }

func (q *queue) add(f frame) {
	q.frames = append(q.frames, f)
	q.bytes += len(f.bytes)
}

// trim drops the oldest frames until a bound holds, but never BYE.
func (q *queue) trim(bound int) {
	for q.bytes > bound && len(q.frames) > 0 && kind(q.frames[0]) != kindBye {
		f := q.frames[0]
		h := husk{f.number, sender.LossOf(f.bytes), kind(f) == kindLost}
		q.remove(1)
		q.wire.Drop(f.number)
		if f.number <= q.sent {
			q.husks = append(q.husks, h)
		} else {
			q.lose(h)
		}
	}
}

// remove removes the first n frames.
func (q *queue) remove(n int) {
	for i := range q.frames[:n] {
		q.bytes -= len(q.frames[i].bytes)
		q.frames[i].bytes = nil
	}
	q.frames = q.frames[n:]
}

// acknowledge frees all frames up to one.
func (q *queue) acknowledge(number uint64) {
	n := 0
	for n < len(q.frames) && q.frames[n].number <= number {
		n++
	}
	q.remove(n)
	q.husks = slices.DeleteFunc(q.husks, func(h husk) bool { return h.number <= number })
	q.wire.Free(number)
}

// resume begins a connection to a collector that has acknowledged and received frames up to two: of
// what was dropped after it had been sent, it shows now whether it is lost.
func (q *queue) resume(acknowledged, received uint64) {
	q.sent = received
	q.acknowledge(acknowledged)
	for _, h := range q.husks {
		if h.number > received {
			q.lose(h)
		} else {
			q.wire.Free(h.number)
		}
	}
	q.husks = nil
}

// lose counts a frame as lost.
func (q *queue) lose(h husk) {
	q.wire.Lose(h.number)
	l := h.loss
	if l.Count == 0 {
		return
	}
	if !h.told {
		switch l.What {
		case sender.LostKernels:
			q.lost.Kernels += l.Count
		case sender.LostCopies:
			q.lost.Copies += l.Count
		case sender.LostEvents:
			q.lost.Events += l.Count
		}
	}
	i := slices.IndexFunc(q.losses, func(o sender.Loss) bool { return o.Reason == l.Reason && o.What == l.What })
	if i < 0 {
		q.losses = append(q.losses, l)
		return
	}
	q.losses[i].Add(l.Count, l.From, l.To)
}

// take gives what was lost since the last call, in order of reasons and kinds.
func (q *queue) take() []sender.Loss {
	all := q.losses
	q.losses = nil
	slices.SortFunc(all, func(a, b sender.Loss) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.What, b.What))
	})
	return all
}
