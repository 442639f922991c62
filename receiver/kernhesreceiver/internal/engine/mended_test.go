package engine

import (
	"slices"

	"github.com/kernhes/kernhes/internal/wire"
)

// mended makes frames of any bytes: lengths fit, frames are numbered in a row, and threads, ids, graphs, devices and times are so
// few that events and records meet each other.
func mended(b []byte) (frames []byte) {
	number := uint64(0)
	for len(b) >= wire.HeaderSize {
		n := min(int(le.Uint32(b)), len(b)-wire.HeaderSize)
		kind, flags := wire.Kind(le.Uint16(b[4:])%uint16(wire.KindBye+2)), le.Uint16(b[6:])&wire.FlagPinned
		body := slices.Clone(b[wire.HeaderSize : wire.HeaderSize+n])
		b = b[wire.HeaderSize+n:]
		switch kind {
		case wire.KindKernels:
			body = mendedRecords(body, 16, 24, 36)
		case wire.KindCopies:
			body = mendedRecords(body, 16, 32, 40)
		case wire.KindEvents:
			body = mendedEvents(body)
		case wire.KindFlushed:
			body = append(body, make([]byte, max(0, 32-len(body)))...)
			mendTime(body)
			mendTime(body[8:])
		case wire.KindStats:
			body = body[:len(body)&^15]
		case wire.KindLost:
			body = append(body, make([]byte, max(0, 32-len(body)))...)
		}
		if flags == 0 && kind != wire.KindBase {
			number++
			frames = wire.AppendFrame(frames, kind, 0, number, body)
		} else {
			frames = wire.AppendFrame(frames, kind, flags, 0, body)
		}
	}
	return frames
}

// mendTime lets a time, unix ns, lie within some 17 s of the epoch, so that timeouts pass.
func mendTime(b []byte) { le.PutUint64(b, epoch+le.Uint64(b)%(1<<34)) }

// mendedRecords has whole records of 64 bytes; node, correlation and device say where in one these lie.
func mendedRecords(b []byte, node, correlation, device int) []byte {
	b = b[:len(b)&^63]
	for at := 0; at < len(b); at += 64 {
		r := b[at:]
		if le.Uint64(r) != 0 { // zero is a time that CUPTI gives
			mendTime(r)
			le.PutUint64(r[8:], le.Uint64(r)+le.Uint64(r[8:])%(1<<24)-1)
		}
		mendNode(r[node:])
		le.PutUint32(r[correlation:], le.Uint32(r[correlation:])&31)
		le.PutUint16(r[device:], le.Uint16(r[device:])&3)
	}
	return b
}

func mendNode(b []byte) { le.PutUint64(b, le.Uint64(b)&(3<<32|7)) }

// mendedEvents has whole events of known kinds.
func mendedEvents(b []byte) (events []byte) {
	sizes := []int{32, 24, 40, 24, 24, 24, 32, 32, 24, 24, 24}
	texts := map[int]int{0: 24, 2: 32, 10: 20}
	for len(b) >= 40 {
		kind := int(le.Uint16(b)) % len(sizes)
		n := min(max(sizes[kind], int(le.Uint16(b[2:]))&^7), len(b)&^7)
		e := b[:n]
		b = b[n:]
		le.PutUint16(e, uint16(kind+1))
		le.PutUint16(e[2:], uint16(n))
		le.PutUint32(e[4:], le.Uint32(e[4:])&3)
		mendTime(e[8:])
		if at, ok := texts[kind]; ok {
			le.PutUint32(e[at:], uint32(min(int(le.Uint32(e[at:])), n-sizes[kind])))
		} else {
			mendNode(e[16:]) // or a correlation id and the flag of a graph
		}
		if kind == 7 {
			mendNode(e[24:])
		}
		events = append(events, e...)
	}
	return events
}
