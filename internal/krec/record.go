package krec

import "encoding/binary"

var le = binary.LittleEndian

// Kinds of activity records, as CUPTI numbers them.
const (
	KindMemcpy = 1
	KindMemset = 2
	KindKernel = 10
)

// Bytes of a record. A kernel record is as long as Meta says: later versions of CUPTI append fields.
const (
	kernelPrefix = 208 // CUpti_ActivityKernel9
	memcpyBytes  = 96  // CUpti_ActivityMemcpy6
	memsetBytes  = 88  // CUpti_ActivityMemset4
)

// A Record is one activity record as CUPTI laid it out: CUpti_ActivityKernel9 and later, CUpti_ActivityMemcpy6 or
// CUpti_ActivityMemset4. Setters change it in place.
type Record []byte

// NewRecord is a record of a kind (KindKernel, KindMemcpy, KindMemset), otherwise 0; kernelBytes as in Meta.
func NewRecord(kind uint32, kernelBytes int) Record {
	r := make(Record, map[uint32]int{KindKernel: kernelBytes, KindMemcpy: memcpyBytes, KindMemset: memsetBytes}[kind])
	le.PutUint32(r, kind)
	return r
}

func (r Record) Kind() uint32 { return le.Uint32(r) }

// at is where a field lies that kernels have at one offset, copies and memsets at another.
func (r Record) at(kernel, copied int) []byte {
	if r.Kind() == KindKernel {
		return r[kernel:]
	}
	return r[copied:]
}

func (r Record) Start() uint64       { return le.Uint64(r[16:]) } // ns, CUPTI's clock; 0: not known
func (r Record) End() uint64         { return le.Uint64(r[24:]) }
func (r Record) Device() uint32      { return le.Uint32(r.at(40, 32)) }
func (r Record) Context() uint32     { return le.Uint32(r.at(44, 36)) }
func (r Record) Stream() uint32      { return le.Uint32(r.at(48, 40)) }
func (r Record) Correlation() uint32 { return le.Uint32(r.at(92, 44)) }
func (r Record) Node() uint64        { return le.Uint64(r.at(144, 64)) } // 0: not of a graph
func (r Record) Graph() uint32       { return le.Uint32(r.at(156, 72)) }

func (r Record) SetStart(v uint64)       { le.PutUint64(r[16:], v) }
func (r Record) SetEnd(v uint64)         { le.PutUint64(r[24:], v) }
func (r Record) SetDevice(v uint32)      { le.PutUint32(r.at(40, 32), v) }
func (r Record) SetContext(v uint32)     { le.PutUint32(r.at(44, 36), v) }
func (r Record) SetStream(v uint32)      { le.PutUint32(r.at(48, 40), v) }
func (r Record) SetCorrelation(v uint32) { le.PutUint32(r.at(92, 44), v) }

// SetNode sets the graph node and, with it, the graph.
func (r Record) SetNode(v uint64) {
	le.PutUint64(r.at(144, 64), v)
	le.PutUint32(r.at(156, 72), uint32(v>>32))
}

// Of kernels alone.

func (r Record) Name() uint64          { return le.Uint64(r[104:]) } // a pointer; a Name frame has its text
func (r Record) SetName(v uint64)      { le.PutUint64(r[104:], v) }
func (r Record) Registers() uint16     { return le.Uint16(r[6:]) }
func (r Record) SharedStatic() uint32  { return le.Uint32(r[76:]) }
func (r Record) SharedDynamic() uint32 { return le.Uint32(r[80:]) }
func (r Record) Grid() [3]uint32       { return r.three(52) }
func (r Record) Block() [3]uint32      { return r.three(64) }

func (r Record) three(at int) [3]uint32 {
	return [3]uint32{le.Uint32(r[at:]), le.Uint32(r[at+4:]), le.Uint32(r[at+8:])}
}

// SetShape sets grid and block.
func (r Record) SetShape(grid, block [3]uint32) {
	for i := range 3 {
		le.PutUint32(r[52+4*i:], grid[i])
		le.PutUint32(r[64+4*i:], block[i])
	}
}

// Of copies and memsets alone.

func (r Record) Bytes() uint64     { return le.Uint64(r[8:]) }
func (r Record) SetBytes(v uint64) { le.PutUint64(r[8:], v) }

// CopyKind is CUpti_ActivityMemcpyKind; 0 for a memset.
func (r Record) CopyKind() uint8 {
	if r.Kind() != KindMemcpy {
		return 0
	}
	return r[4]
}

func (r Record) SetCopyKind(v uint8) { r[4] = v }

// Memories are the CUpti_ActivityMemoryKind that a copy reads and writes; a memset writes its first.
func (r Record) Memories() (src, dst uint8) {
	if r.Kind() == KindMemset {
		return uint8(le.Uint16(r[50:])), 0
	}
	return r[5], r[6]
}

func (r Record) Flags() uint16 {
	if r.Kind() == KindMemset {
		return le.Uint16(r[48:])
	}
	return uint16(r[7])
}
