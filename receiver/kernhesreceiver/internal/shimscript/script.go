// Package shimscript turns calls of a test into the frames that a shim sends.
package shimscript

import (
	"encoding/binary"

	"github.com/kernhes/kernhes/internal/wire"
)

var le = binary.LittleEndian

// A Script writes what a shim sends, frame by frame. Times are in µs after Epoch unless a method says otherwise.
type Script struct {
	Out     func(wire.Frame) // takes the frames
	Number  uint64           // of the last numbered frame
	Pinned  bool             // frames are of the snapshot
	Kernels uint64           // sent so far
	Copies  uint64
}

// Epoch is unix ns.
const Epoch = 1_790_000_000_000_000_000

// Second is in µs.
const Second = 1_000_000

// Us is a time in unix ns.
func Us(t uint64) uint64 { return Epoch + t*1000 }

// Frame sends a frame.
func (s *Script) Frame(k wire.Kind, body []byte) {
	f := wire.Frame{Kind: k, Body: body}
	switch k {
	case wire.KindKernels:
		s.Kernels += uint64(len(body) / 64)
	case wire.KindCopies:
		s.Copies += uint64(len(body) / 64)
	}
	if s.Pinned {
		f.Flags = wire.FlagPinned
	} else {
		s.Number++
		f.Number = s.Number
	}
	s.Out(f)
}

// Event sends an event of a thread.
func (s *Script) Event(k wire.EventKind, thread uint32, at uint64, payload []byte, text string) {
	for len(text)%8 != 0 {
		text += "\x00"
	}
	b := le.AppendUint16(nil, uint16(k))
	b = le.AppendUint16(b, uint16(16+len(payload)+len(text)))
	b = le.AppendUint32(b, thread)
	b = le.AppendUint64(b, Us(at))
	s.Frame(wire.KindEvents, append(append(b, payload...), text...))
}

// U32 is numbers as they lie on the wire.
func U32(values ...uint32) (b []byte) {
	for _, v := range values {
		b = le.AppendUint32(b, v)
	}
	return b
}

// U64 is likewise.
func U64(values ...uint64) (b []byte) {
	for _, v := range values {
		b = le.AppendUint64(b, v)
	}
	return b
}

// Push begins a range of thread 1.
func (s *Script) Push(at uint64, text string) {
	s.Event(wire.EventPush, 1, at, U32(0, 0, uint32(len(text)), wire.DepthUnknown), text)
}

// Pop ends one.
func (s *Script) Pop(at uint64) { s.Event(wire.EventPop, 1, at, U32(0, wire.DepthUnknown), "") }

// Launch sends an eager launch.
func (s *Script) Launch(at uint64, c uint32) { s.Event(wire.EventLaunch, 1, at, U32(c, 0), "") }

// GraphLaunch sends the launch of a graph.
func (s *Script) GraphLaunch(at uint64, c uint32) { s.Event(wire.EventLaunch, 1, at, U32(c, 1), "") }

// Node creates a graph node.
func (s *Script) Node(at uint64, id uint64) {
	s.Event(wire.EventNodeCreated, 1, at, append(U64(id), U32(1, 0)...), "")
}

// Clone clones one.
func (s *Script) Clone(at uint64, from, to uint64) {
	s.Event(wire.EventNodeCloned, 1, at, U64(from, to), "")
}

// ranOn sends a kernel of a stream.
func (s *Script) RanOn(stream, c uint32, start, end uint64) {
	b := make([]byte, 64)
	copy(b, U64(Us(start), Us(end)))
	copy(b[24:], U32(c, 0, stream))
	s.Frame(wire.KindKernels, b)
}

// copyOn sends a copy of a stream.
func (s *Script) CopyOn(stream, c uint32, start, end uint64) {
	b := make([]byte, 64)
	copy(b, U64(Us(start), Us(end)))
	copy(b[32:], U32(c, stream))
	b[42] = wire.CopyMemcpy
	s.Frame(wire.KindCopies, b)
}

// Kernel sends a kernel; its times are in unix ns.
func (s *Script) Kernel(c uint32, node, start, end uint64) { s.Record(c, 0, node, start, end) }

// named sends a kernel with a name.
func (s *Script) Named(c, name uint32, start, end uint64) { s.Record(c, name, 0, start, end) }

// Record sends a kernel of a name and a node; its times are in unix ns.
func (s *Script) Record(c, name uint32, node, start, end uint64) {
	b := make([]byte, 64)
	copy(b, U64(start, end, node))
	copy(b[24:], U32(c, name, 7))
	s.Frame(wire.KindKernels, b)
}

// Ran sends a kernel.
func (s *Script) Ran(c uint32, start, end uint64) { s.Kernel(c, 0, Us(start), Us(end)) }

// RanNode sends a kernel of a graph node.
func (s *Script) RanNode(c uint32, node, start, end uint64) { s.Kernel(c, node, Us(start), Us(end)) }

// Flushed sends a heartbeat of a completed flush.
func (s *Script) Flushed(at uint64) {
	s.Frame(wire.KindFlushed, append(U64(Us(at), Us(at), Us(at)), U32(1, 0)...))
}

// Lost sends a loss.
func (s *Script) Lost(reason, what uint32, n, from, to uint64) {
	s.Frame(wire.KindLost, append(U32(reason, what), U64(n, Us(from), Us(to))...))
}

// Bye sends BYE, with what was sent.
func (s *Script) Bye() {
	s.Frame(wire.KindBye, append(U32(1, 0), U64(s.Kernels, s.Copies)...))
}

// Base ends the snapshot.
func (s *Script) Base(number uint64, correlation uint32) {
	s.Out(wire.Frame{Kind: wire.KindBase, Body: append(U64(number), U32(correlation, 1)...)})
	s.Number, s.Pinned = number, false
}

// Text sends a text by number.
func (s *Script) Text(id uint32, text string) {
	b := append(U32(id, uint32(len(text))), text...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	s.Frame(wire.KindStrings, b)
}

// OnDevice sends a record on a device.
func (s *Script) OnDevice(device uint16, correlation uint32, from, to uint64) {
	s.Frame(wire.KindKernels, KernelOn(device, correlation, Us(from), Us(to)))
}

// KernelOn is a kernel record on a device; its times are in unix ns.
func KernelOn(device uint16, correlation uint32, from, to uint64) []byte {
	k := make([]byte, 64)
	le.PutUint64(k, from)
	le.PutUint64(k[8:], to)
	le.PutUint32(k[24:], correlation)
	le.PutUint16(k[36:], device)
	return k
}

// Step plays a step of one kernel on a device, from a time, and its flush.
func (s *Script) Step(at uint64, text string, device uint16) {
	s.Push(at, text)
	s.Launch(at+1, uint32(at+1))
	s.Pop(at + 2)
	s.OnDevice(device, uint32(at+1), at+3, at+8)
	s.Flushed(at + 100_000)
}
