package wire

// MaxPayload is the longest payload of an event, in bytes.
const MaxPayload = 512

// SchemaEnum is the schema type of an enumeration.
const SchemaEnum = 0x80

// SiteMark is the site of a payload that came with a mark; those of ranges are the kinds of the events that brought them.
const SiteMark EventKind = 0

// entryHead is what stands before the name of an entry.
const entryHead = 40

// Schema of SCHEMA, PAYLOAD: NVTX's id, unique in its domain.
func (e Event) Schema() uint64 {
	if e.Kind() == EventSchema {
		return le.Uint64(e.b[16:])
	}
	return le.Uint64(e.b[32:])
}

// Data of SCHEMA, PAYLOAD: the entries, or the payload's bytes as far as the shim sent them.
func (e Event) Data() []byte {
	s := eventSizes[e.Kind()]
	return e.b[s.size : s.size+int(le.Uint32(e.b[s.textLength:]))]
}

// Size in bytes of a payload: of SCHEMA as registered, 0 if it is not fixed; of PAYLOAD as the engine gave it.
func (e Event) Size() uint32 {
	if e.Kind() == EventSchema {
		return le.Uint32(e.b[28:])
	}
	return le.Uint32(e.b[44:])
}

// Pack of SCHEMA: the alignment of entries in bytes; 0: their natural one.
func (e Event) Pack() uint32 { return le.Uint32(e.b[32:]) }

// SchemaType of SCHEMA: NVTX's schema type, or SchemaEnum.
func (e Event) SchemaType() uint32 { return le.Uint32(e.b[44:]) }

// Site of PAYLOAD: EventPush, EventPop, EventStart, EventEnd or SiteMark.
func (e Event) Site() EventKind { return EventKind(le.Uint32(e.b[48:])) }

// A SchemaEntry is one entry of a schema, or one value of an enumeration.
type SchemaEntry struct {
	Type   uint64 // NVTX's entry type, or a schema's id; of an enumeration the value
	Flags  uint64
	Offset uint64 // bytes; 0 of an entry that is not the first: follows the one before, aligned
	Name   []byte
}

// Entries calls f with each entry of a SCHEMA, in order.
func (e Event) Entries(f func(SchemaEntry)) {
	for b := e.Data(); len(b) > 0; {
		n := int(le.Uint32(b[32:]))
		f(SchemaEntry{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), b[entryHead : entryHead+n]})
		b = b[(entryHead+n+7)&^7:]
	}
}

// checkEntries reports what is wrong with the entries of the SCHEMA at byte at.
func checkEntries(b []byte, at int) error {
	for len(b) > 0 {
		if len(b) < entryHead {
			return bad(KindEvents, at, "%d bytes of a schema left, an entry has at least %d", len(b), entryHead)
		}
		n := le.Uint32(b[32:])
		if n > MaxText || (entryHead+int(n)+7)&^7 > len(b) {
			return bad(KindEvents, at, "name of %d bytes in an entry of a schema with %d left", n, len(b))
		}
		b = b[(entryHead+int(n)+7)&^7:]
	}
	return nil
}
