package wire

import "unsafe"

// A Kernel is one kernel record as it lies on the wire (kw_kernel).
type Kernel [64]byte

// Start and End are in unix ns; 0: CUPTI did not say.
func (k *Kernel) Start() uint64 { return le.Uint64(k[0:8]) }
func (k *Kernel) End() uint64   { return le.Uint64(k[8:16]) }

// Node is CUPTI's graphNodeId, graph id << 32 | index; 0: not from a graph.
func (k *Kernel) Node() uint64        { return le.Uint64(k[16:24]) }
func (k *Kernel) Correlation() uint32 { return le.Uint32(k[24:28]) }

// Name is a string id; 0: not known.
func (k *Kernel) Name() uint32      { return le.Uint32(k[28:32]) }
func (k *Kernel) Stream() uint32    { return le.Uint32(k[32:36]) }
func (k *Kernel) Device() uint16    { return le.Uint16(k[36:38]) }
func (k *Kernel) Registers() uint16 { return le.Uint16(k[38:40]) }
func (k *Kernel) Grid() (x uint32, y, z uint16) {
	return le.Uint32(k[40:44]), le.Uint16(k[44:46]), le.Uint16(k[46:48])
}
func (k *Kernel) Block() (x, y, z uint16) {
	return le.Uint16(k[48:50]), le.Uint16(k[50:52]), le.Uint16(k[52:54])
}

// Context is the low 16 bits of CUPTI's context id.
func (k *Kernel) Context() uint16 { return le.Uint16(k[54:56]) }

// SharedStatic and SharedDynamic are in bytes a block.
func (k *Kernel) SharedStatic() uint32  { return le.Uint32(k[56:60]) }
func (k *Kernel) SharedDynamic() uint32 { return le.Uint32(k[60:64]) }

// Static is what a kernel keeps over replays of its graph, for comparing: name and stream, grid, block.
func (k *Kernel) Static() Static {
	return Static{le.Uint64(k[28:36]), le.Uint64(k[40:48]), le.Uint64(k[48:56])}
}

// A Static is name id and stream, grid, block and context of a kernel, packed.
type Static [3]uint64

// Name, Stream, Grid and Block of the kernel that s came from.
func (s Static) Name() uint32   { return uint32(s[0]) }
func (s Static) Stream() uint32 { return uint32(s[0] >> 32) }
func (s Static) Grid() (x uint32, y, z uint16) {
	return uint32(s[1]), uint16(s[1] >> 32), uint16(s[1] >> 48)
}
func (s Static) Block() (x, y, z uint16) {
	return uint16(s[2]), uint16(s[2] >> 16), uint16(s[2] >> 32)
}

// A Copy is one copy or memset record as it lies on the wire (kw_copy).
type Copy [64]byte

// Activity kinds of copies.
const (
	CopyMemcpy = 1
	CopyMemset = 2
	CopyPeer   = 22
)

func (c *Copy) Start() uint64       { return le.Uint64(c[0:8]) }
func (c *Copy) End() uint64         { return le.Uint64(c[8:16]) }
func (c *Copy) Node() uint64        { return le.Uint64(c[16:24]) }
func (c *Copy) Bytes() uint64       { return le.Uint64(c[24:32]) }
func (c *Copy) Correlation() uint32 { return le.Uint32(c[32:36]) }
func (c *Copy) Stream() uint32      { return le.Uint32(c[36:40]) }
func (c *Copy) Device() uint16      { return le.Uint16(c[40:42]) }

// Kind is the CUpti_ActivityKind: CopyMemcpy, CopyMemset or CopyPeer.
func (c *Copy) Kind() uint8 { return c[42] }

// CopyKind is the CUpti_ActivityMemcpyKind; 0 for a memset.
func (c *Copy) CopyKind() uint8 { return c[43] }

// Kernels returns the records of a KERNELS body, without copying.
func Kernels(body []byte) ([]Kernel, error) { return array[Kernel](KindKernels, body) }

// Copies returns the records of a COPIES body, without copying.
func Copies(body []byte) ([]Copy, error) { return array[Copy](KindCopies, body) }

// array takes b as records of T, a sized byte array, which has no alignment to respect.
func array[T Kernel | Copy | stat](k Kind, b []byte) ([]T, error) {
	var t T
	if len(b)%len(t) != 0 {
		return nil, bad(k, len(b)-len(b)%len(t), "%d bytes, want a multiple of %d", len(b), len(t))
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/len(t)), nil
}
