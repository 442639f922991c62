package cupti

import (
	"math/bits"
	"math/rand/v2"
)

// A table finds launches by correlation id. Ids ascend by ones and twos, so the low bits of an id are its slot: launches in a
// row lie in slots in a row, in the same few cache lines. A map scatters them; with 50,000 launches remembered, and as many
// added as removed, its look-ups took an eighth of the collector's time.
type table struct {
	slots []*Launch // a power of two of them; launches of one slot are linked by next, those of one id by older
	ids   int
	mix   uint32 // an odd factor that spreads ids over the slots; 0: they have ascended so far
}

const (
	leastSlots = 1 << 8
	// maxChain is how many ids may share a slot before ids are spread: those of an engine that means no harm ascend.
	maxChain = 64
)

// slot is where launches with an id hang.
func (t *table) slot(id uint32) **Launch {
	if t.mix != 0 {
		id = bits.ReverseBytes32(id * t.mix)
	}
	return &t.slots[int(id)&(len(t.slots)-1)]
}

// find is where the latest launch with an id hangs, or where it would.
func (t *table) find(id uint32) **Launch {
	if len(t.slots) == 0 {
		t.slots = make([]*Launch, leastSlots)
	}
	at := t.slot(id)
	for *at != nil && (*at).Correlation != id {
		at = &(*at).next
	}
	return at
}

// get is the latest launch with an id; nil: there is none.
func (t *table) get(id uint32) *Launch {
	if len(t.slots) == 0 {
		return nil
	}
	return *t.find(id)
}

// put adds a launch before those with its id.
func (t *table) put(l *Launch) {
	at := t.find(l.Correlation)
	l.older, l.next = *at, nil
	if l.older != nil {
		l.next, l.older.next = l.older.next, nil
	} else if t.ids++; t.ids > len(t.slots) {
		defer t.grow()
	}
	*at = l
	if t.mix == 0 && l.older == nil {
		n := 0
		for other := *t.slot(l.Correlation); other != nil && n <= maxChain; other = other.next {
			n++
		}
		if n > maxChain {
			t.mix = rand.Uint32() | 1 // nobody can choose ids that share a slot now
			t.rehash(len(t.slots))
		}
	}
}

// grow doubles the slots.
func (t *table) grow() { t.rehash(2 * len(t.slots)) }

// rehash has so many slots from now on.
func (t *table) rehash(slots int) {
	before := t.slots
	t.slots = make([]*Launch, slots)
	for _, l := range before {
		for l != nil {
			at := t.find(l.Correlation)
			l, l.next, *at = l.next, nil, l
		}
	}
}

// remove takes out a launch, if it is there.
func (t *table) remove(l *Launch) {
	at := t.find(l.Correlation)
	switch latest := *at; {
	case latest == l && l.older == nil:
		*at = l.next
		t.ids--
	case latest == l:
		l.older.next = l.next
		*at = l.older
	default:
		for latest != nil && latest.older != l {
			latest = latest.older
		}
		if latest != nil { // else it was cut
			latest.older = l.older
		}
	}
}
