package kernhesreceiver

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

var le = binary.LittleEndian

// A script writes what a shim sends, frame by frame, to a process. Times are in µs after an hour that suits.
type script struct {
	t      *testing.T
	p      *process
	number uint64
	pinned bool
	lines  []stepLine
	seen   records          // by the shim
	out    func(wire.Frame) // where frames go instead of the process
}

const epoch = 1_790_000_000_000_000_000 // unix ns

func us(t uint64) uint64 { return epoch + t*1000 }

func newScript(t *testing.T, pairs ...string) *script {
	info := map[string]string{"run": "r", "rank": "0"}
	for i := 0; i < len(pairs); i += 2 {
		info[pairs[i]] = pairs[i+1]
	}
	return &script{t: t, p: newTestProcess(wire.Hello{Version: 1, Session: 0xabc, Info: info})}
}

func (s *script) frame(k wire.Kind, body []byte) {
	s.t.Helper()
	f := wire.Frame{Kind: k, Body: body}
	switch k {
	case wire.KindKernels:
		s.seen.kernels += uint64(len(body) / 64)
	case wire.KindCopies:
		s.seen.copies += uint64(len(body) / 64)
	}
	if s.pinned {
		f.Flags = wire.FlagPinned
	} else {
		s.number++
		f.Number = s.number
	}
	if s.out != nil {
		s.out(f)
		return
	}
	require.NoError(s.t, s.p.frame(f))
	s.lines = append(s.lines, s.p.takeLines()...)
	s.p.settled()
}

func (s *script) event(k wire.EventKind, thread uint32, at uint64, payload []byte, text string) {
	s.t.Helper()
	for len(text)%8 != 0 {
		text += "\x00"
	}
	b := le.AppendUint16(nil, uint16(k))
	b = le.AppendUint16(b, uint16(16+len(payload)+len(text)))
	b = le.AppendUint32(b, thread)
	b = le.AppendUint64(b, us(at))
	s.frame(wire.KindEvents, append(append(b, payload...), text...))
}

func u32(values ...uint32) (b []byte) {
	for _, v := range values {
		b = le.AppendUint32(b, v)
	}
	return b
}

func u64(values ...uint64) (b []byte) {
	for _, v := range values {
		b = le.AppendUint64(b, v)
	}
	return b
}

func (s *script) push(at uint64, text string) {
	s.event(wire.EventPush, 1, at, u32(0, 0, uint32(len(text)), wire.DepthUnknown), text)
}
func (s *script) pop(at uint64)                   { s.event(wire.EventPop, 1, at, u32(0, wire.DepthUnknown), "") }
func (s *script) launch(at uint64, c uint32)      { s.event(wire.EventLaunch, 1, at, u32(c, 0), "") }
func (s *script) graphLaunch(at uint64, c uint32) { s.event(wire.EventLaunch, 1, at, u32(c, 1), "") }
func (s *script) node(at uint64, id uint64) {
	s.event(wire.EventNodeCreated, 1, at, append(u64(id), u32(1, 0)...), "")
}
func (s *script) clone(at uint64, from, to uint64) {
	s.event(wire.EventNodeCloned, 1, at, u64(from, to), "")
}

// ranOn sends a kernel of a stream.
func (s *script) ranOn(stream, c uint32, start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(us(start), us(end)))
	copy(b[24:], u32(c, 0, stream))
	s.frame(wire.KindKernels, b)
}

// copyOn sends a copy of a stream.
func (s *script) copyOn(stream, c uint32, start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(us(start), us(end)))
	copy(b[32:], u32(c, stream))
	b[42] = wire.CopyMemcpy
	s.frame(wire.KindCopies, b)
}

func (s *script) kernel(c uint32, node, start, end uint64) { s.record(c, 0, node, start, end) }

// named sends a kernel with a name.
func (s *script) named(c, name uint32, start, end uint64) { s.record(c, name, 0, start, end) }

func (s *script) record(c, name uint32, node, start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(start, end, node))
	copy(b[24:], u32(c, name, 7))
	s.frame(wire.KindKernels, b)
}

func (s *script) ran(c uint32, start, end uint64)           { s.kernel(c, 0, us(start), us(end)) }
func (s *script) ranNode(c uint32, node, start, end uint64) { s.kernel(c, node, us(start), us(end)) }
func (s *script) flushed(at uint64) {
	s.frame(wire.KindFlushed, append(u64(us(at), us(at), us(at)), u32(1, 0)...))
}
func (s *script) lost(reason, what uint32, n, from, to uint64) {
	s.frame(wire.KindLost, append(u32(reason, what), u64(n, us(from), us(to))...))
}
func (s *script) bye() {
	s.frame(wire.KindBye, append(u32(1, 0), u64(s.seen.kernels, s.seen.copies)...))
	s.end(false)
}
func (s *script) base(number uint64, correlation uint32) {
	require.NoError(s.t, s.p.frame(wire.Frame{Kind: wire.KindBase, Body: append(u64(number), u32(correlation, 1)...)}))
	s.number, s.pinned = number, false
}

func (s *script) end(gone bool) {
	s.p.end(gone)
	s.lines = append(s.lines, s.p.takeLines()...)
	s.p.settled()
}

// report checks the books and returns the numbers of the first device.
func (s *script) report() rankReport {
	s.t.Helper()
	booksHold(s.t, s.p)
	return s.p.reports()[0]
}

const second = 1_000_000 // µs

// oneStep is a step of one kernel that runs from at+10 to at+30.
func (s *script) oneStep(at uint64, c uint32) {
	s.push(at, "step:decode tokens=1")
	s.launch(at+1, c)
	s.pop(at + 2)
	s.ran(c, at+10, at+30)
}
