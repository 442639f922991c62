package sample

import "time"

// kept are the last steps that were not chosen, of all ranks, in the order in which they came.
type kept[T any] struct {
	limit int // bytes
	bytes int
	steps []keptStep[T] // those from head on
	head  int
}

type keptStep[T any] struct {
	Candidate[T]
	at   time.Time
	gone bool
}

// add keeps a step, and returns how many had to go for it.
func (k *kept[T]) add(c Candidate[T], now time.Time) (gone uint64) {
	if c.Bytes > k.limit {
		return 1
	}
	for k.bytes+c.Bytes > k.limit {
		if !k.steps[k.head].gone {
			gone++
		}
		k.pop()
	}
	k.bytes += c.Bytes
	k.steps = append(k.steps, keptStep[T]{Candidate: c, at: now})
	return gone
}

// expire lets go of steps that came before a moment.
func (k *kept[T]) expire(before time.Time) {
	for k.head < len(k.steps) && k.steps[k.head].at.Before(before) {
		k.pop()
	}
}

// pop lets go of the oldest step. The room before head is used again once it is half of all: one move a step at most.
func (k *kept[T]) pop() {
	k.drop(&k.steps[k.head])
	k.head++
	if k.head*2 > len(k.steps) {
		n := copy(k.steps, k.steps[k.head:])
		clear(k.steps[n:])
		k.steps, k.head = k.steps[:n], 0
	}
}

// drop lets go of a step wherever it stands.
func (k *kept[T]) drop(s *keptStep[T]) {
	k.bytes -= s.Bytes
	*s = keptStep[T]{at: s.at, gone: true}
}

// all yields the kept steps; they may be dropped meanwhile.
func (k *kept[T]) all(yield func(*keptStep[T]) bool) {
	for i := k.head; i < len(k.steps); i++ {
		if s := &k.steps[i]; !s.gone && !yield(s) {
			return
		}
	}
}
