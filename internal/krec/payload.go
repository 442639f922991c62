package krec

import (
	"bytes"
	"fmt"
	"slices"
)

// A Payload is what came with a push or a pop, through NVTX's payload extension.
type Payload struct {
	Schema uint64 // id in the domain
	Way    uint32 // WayAttributes or WayFunction
	Data   []byte
}

// Ways in which a payload comes with a push; with a pop it is always WayFunction.
const (
	WayAttributes = 0 // in the event attributes of an ordinary push
	WayFunction   = 1 // by a function of the extension
)

// A Schema is the layout of payloads, as it was registered in a domain. The default domain has none.
type Schema struct {
	ID      uint64
	Domain  uint32
	Size    uint32 // bytes of a payload; 0: not given
	Pack    uint32
	Type    uint32 // NVTX's schema type; SchemaEnum: an enumeration
	Entries []SchemaEntry
}

// SchemaEnum is the type of an enumeration: Size is that of its values, Type of an entry is a value.
const SchemaEnum = 0x80

// A SchemaEntry is one entry of a schema.
type SchemaEntry struct {
	Type, Flags, Offset, Detail uint64
	Name                        string
}

func (*Schema) Kind() uint32 { return KindSchema }

func (f *Push) Kind() uint32 {
	if f.Payload != nil {
		return KindPushPayload
	}
	return KindPush
}

func (f *Pop) Kind() uint32 {
	if f.Payload != nil {
		return KindPopPayload
	}
	return KindPop
}

func (p *Payload) clone() *Payload {
	if p == nil {
		return nil
	}
	return &Payload{p.Schema, p.Way, slices.Clone(p.Data)}
}

func (f *Push) clone() Frame {
	c := *f
	c.Payload = f.Payload.clone()
	return &c
}

func (f *Pop) clone() Frame {
	c := *f
	c.Payload = f.Payload.clone()
	return &c
}

func (f *Schema) clone() Frame {
	c := *f
	c.Entries = slices.Clone(f.Entries)
	return &c
}

// append lays a payload out behind the head of its push or pop; nil leaves none.
func (p *Payload) append(b []byte) []byte {
	if p == nil {
		return b
	}
	return append(append32(append64(b, p.Schema), p.Way, uint32(len(p.Data))), p.Data...)
}

func (f *Schema) appendBody(b []byte) []byte {
	b = append32(append64(b, f.ID), f.Domain, f.Size, f.Pack, f.Type)
	for _, e := range f.Entries {
		b = append64(b, e.Type, e.Flags, e.Offset, e.Detail)
		b = append(append32(b, uint32(len(e.Name)), 0), e.Name...)
	}
	return b
}

const (
	payloadHead = 16
	entryHead   = 40
)

// decodePayload takes a payload off the front of b.
func decodePayload(what string, b []byte) (*Payload, []byte, error) {
	p := &Payload{Schema: le.Uint64(b), Way: le.Uint32(b[8:])}
	n := le.Uint32(b[12:])
	b = b[payloadHead:]
	if p.Way > WayFunction {
		return nil, nil, fmt.Errorf("%s: way %d, want 0 or 1", what, p.Way)
	}
	if uint64(n) > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%s: payload of %d bytes, of which %d are there", what, n, len(b))
	}
	p.Data = bytes.Clone(b[:n])
	return p, b[n:], nil
}

func decodeSchema(b []byte) (*Schema, error) {
	f := &Schema{ID: le.Uint64(b), Domain: le.Uint32(b[8:]), Size: le.Uint32(b[12:]), Pack: le.Uint32(b[16:]), Type: le.Uint32(b[20:])}
	for b = b[24:]; len(b) > 0; {
		if len(b) < entryHead {
			return nil, fmt.Errorf("schema: entry %d: %d bytes, want %d", len(f.Entries), len(b), entryHead)
		}
		e := SchemaEntry{Type: le.Uint64(b), Flags: le.Uint64(b[8:]), Offset: le.Uint64(b[16:]), Detail: le.Uint64(b[24:])}
		n, zero := le.Uint32(b[32:]), le.Uint32(b[36:])
		b = b[entryHead:]
		if zero != 0 || uint64(n) > uint64(len(b)) {
			return nil, fmt.Errorf("schema: entry %d: name of %d bytes, of which %d are there; %d at byte 36, want 0", len(f.Entries), n, len(b), zero)
		}
		e.Name = string(b[:n])
		b = b[n:]
		f.Entries = append(f.Entries, e)
	}
	return f, nil
}
