package nccl

import (
	"slices"

	"github.com/kernhes/kernhes/internal/wire"
)

// A Field is one thing that NCCL says in a payload.
type Field uint8

// Fields of NCCL's payloads.
const (
	Comm    Field = iota // id of the communicator: a hash that its ranks share
	Parent               // id of the communicator that was split or grown
	Ranks                // of the communicator
	Devices              // of ncclCommInitAll: ranks of the communicator, all of this process
	Rank                 // of this process, or device, in the communicator
	Device               // CUDA device of this rank
	Bytes                // of the message
	Op                   // ncclRedOp_t
	Root
	Peer
	Color
	Key
	fields
)

// fieldNames identify the fields: their places differ between versions of NCCL, their names do not.
var fieldNames = map[string]Field{
	"NCCL communicator ID": Comm, "Parent NCCL communicator ID": Parent, "No. of ranks": Ranks, "No. of devices": Devices,
	"Rank": Rank, "CUDA device": Device, "Message size [bytes]": Bytes, "Reduction operation": Op, "Root": Root,
	"Peer rank": Peer, "Color": Color, "Key": Key,
}

// A Said is what one payload says.
type Said struct {
	has    [fields]bool
	values [fields]uint64
}

// Get is the value of a field, and whether the payload says it.
func (s *Said) Get(f Field) (uint64, bool) { return s.values[f], s.has[f] }

// Int is the value of a field that is a count or a number of something; false where it is negative or absent.
func (s *Said) Int(f Field) (int, bool) {
	v := int64(s.values[f])
	return int(v), s.has[f] && v >= 0
}

// A place is where a field lies in a payload.
type place struct {
	field  Field
	at     uint64
	width  uint8 // bytes: 1, 2, 4, 8
	signed bool
}

// A layout is the places of a schema's fields.
type layout struct {
	size   uint32 // of a payload; 0: any
	places []place
}

// read reads a payload. A field that lies beyond its end, where it was cut or is from an older version, is absent.
func (l *layout) read(b []byte) (s Said) {
	for _, p := range l.places {
		if p.at+uint64(p.width) > uint64(len(b)) {
			continue
		}
		var v uint64
		for i := range p.width {
			v |= uint64(b[p.at+uint64(i)]) << (8 * i)
		}
		if shift := 64 - 8*p.width; p.signed {
			v = uint64(int64(v<<shift) >> shift)
		}
		s.has[p.field], s.values[p.field] = true, v
	}
	return s
}

// types are the widths in bytes of NVTX's predefined entry types on 64-bit Linux, where shim and engine run; 0: no integer.
// Those from 19 on that are not integers have a width that only places what follows them.
var types = map[uint64]struct {
	width   uint8
	signed  bool
	integer bool
}{
	1: {1, true, true}, 2: {1, false, true}, 3: {2, true, true}, 4: {2, false, true}, 5: {4, true, true}, 6: {4, false, true},
	7: {8, true, true}, 8: {8, false, true}, 9: {8, true, true}, 10: {8, false, true}, 11: {1, true, true}, 12: {1, false, true},
	13: {2, true, true}, 14: {2, false, true}, 15: {4, true, true}, 16: {4, false, true}, 17: {8, true, true}, 18: {8, false, true},
	19: {4, false, false}, 20: {8, false, false}, 22: {8, false, true}, 23: {8, false, false}, 24: {4, false, false},
	25: {1, false, false}, 26: {2, false, false}, 27: {4, false, false}, 32: {1, false, true}, 68: {4, false, false},
	69: {4, false, false}, 70: {8, false, false}, 73: {4, false, false}, 74: {8, false, false}, 75: {8, false, false},
	76: {8, false, false}, 77: {8, false, false}, 78: {8, false, false}, 80: {8, false, false},
}

// Flags of entries that hold no plain value: a pointer, a relative offset, or an array.
const (
	flagPointer  = 1 << 1
	flagRelative = 1<<2 | 1<<3
	flagArray    = 7 << 4
)

const (
	schemaIDs  = 1 << 24 // entry types from here on are ids of schemas and enumerations
	typeStatic = 1       // NVTX's schema type of a plain struct
	maxSchemas = 1024
	maxLayouts = 4 // of one id: libraries of several versions may register the same static ids
)

type schemaKey struct {
	domain uint32
	id     uint64
}

// schemas are the layouts of a process's payloads, of NCCL's domain.
type schemas struct {
	layouts map[schemaKey][]layout
	enums   map[schemaKey]uint8 // width of an enumeration
	refused uint64
}

// add takes a SCHEMA.
func (s *schemas) add(e wire.Event) {
	key := schemaKey{e.Domain(), e.Schema()}
	if len(s.layouts)+len(s.enums) >= maxSchemas {
		s.refused++
		return
	}
	if e.SchemaType() == wire.SchemaEnum {
		if n := e.Size(); n == 1 || n == 2 || n == 4 || n == 8 {
			s.enums[key] = uint8(n)
		}
		return
	}
	if e.SchemaType() != typeStatic {
		return
	}
	l := s.layout(e)
	known := s.layouts[key]
	if slices.ContainsFunc(known, func(k layout) bool { return k.size == l.size && slices.Equal(k.places, l.places) }) {
		return
	}
	if len(known) >= maxLayouts {
		s.refused++
		return
	}
	s.layouts[key] = append(known, l)
}

// layout works out the places of the fields in a schema. An entry without an offset follows the one before it; what
// follows an entry of unknown width has no place.
func (s *schemas) layout(e wire.Event) layout {
	l := layout{size: e.Size()}
	next, known, first := uint64(0), true, true
	e.Entries(func(n wire.SchemaEntry) {
		t := types[n.Type]
		if n.Type >= schemaIDs {
			t.width, t.integer = s.enums[schemaKey{e.Domain(), n.Type}], true
		}
		plain := n.Flags&(flagPointer|flagRelative|flagArray) == 0
		if n.Flags&flagPointer != 0 {
			t.width = 8
		} else if !plain {
			t.width = 0
		}
		at := n.Offset
		if at == 0 && !first {
			at = aligned(next, t.width, e.Pack())
		} else {
			known = true
		}
		first = false
		known = known && t.width > 0 && at < wire.MaxPayload
		if f, ok := fieldNames[string(n.Name)]; ok && known && plain && t.integer {
			l.places = append(l.places, place{f, at, t.width, t.signed})
		}
		next = at + uint64(t.width)
	})
	return l
}

// aligned is the next multiple of an entry's width, or of pack where that is less.
func aligned(at uint64, width uint8, pack uint32) uint64 {
	to := uint64(width)
	if pack > 0 {
		to = min(to, uint64(pack))
	}
	if to <= 1 {
		return at
	}
	return (at + to - 1) / to * to
}

// read reads a PAYLOAD by its schema. False where that is not known, or where several layouts of one id fit and disagree.
func (s *schemas) read(e wire.Event) (said Said, ok bool) {
	layouts := s.layouts[schemaKey{e.Domain(), e.Schema()}]
	for i := range layouts {
		l := &layouts[i]
		if len(layouts) > 1 && l.size != 0 && l.size != e.Size() {
			continue
		}
		one := l.read(e.Data())
		if ok && one != said {
			return Said{}, false
		}
		said, ok = one, true
	}
	return said, ok
}
