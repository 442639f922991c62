package cupti

// A table finds launches by correlation id. Ids ascend by ones and twos, so the low bits of an id are its slot: launches in a
// row lie in slots in a row, in the same few cache lines. A map scatters them; with 50,000 launches remembered, and as many
// added as removed, its look-ups took an eighth of the collector's time.
type table struct {
	slots []*Launch // a power of two of them; launches of one slot are linked by next, those of one id by older
	ids   int
}

const leastSlots = 1 << 8

// find is where the latest launch with an id hangs, or where it would.
func (t *table) find(id uint32) **Launch {
	if len(t.slots) == 0 {
		t.slots = make([]*Launch, leastSlots)
	}
	at := &t.slots[int(id)&(len(t.slots)-1)]
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
}

// grow doubles the slots.
func (t *table) grow() {
	before := t.slots
	t.slots = make([]*Launch, 2*len(before))
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
