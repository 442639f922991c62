package krec

import (
	"bytes"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"
)

// maxDecoded is how much a file may unpack to: 4 GiB is 17 minutes of the busiest recording so far.
const maxDecoded = 4 << 30

// Read reads a .krec.zst file. An error says which frame is at fault and where it lies in the unpacked file.
func Read(path string) (*Recording, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	b, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Decode reads an unpacked recording; it keeps nothing of b.
func Decode(b []byte) (*Recording, error) {
	r := &Recording{}
	for at := 0; at < len(b); {
		fault := func(format string, args ...any) error {
			return fmt.Errorf("frame %d at byte %d: %w", len(r.Frames), at, fmt.Errorf(format, args...))
		}
		rest := b[at:]
		if len(rest) < 8 {
			return nil, fault("%d bytes, want a head of 8", len(rest))
		}
		kind, length := le.Uint32(rest), le.Uint32(rest[4:])
		rest = rest[8:]
		if uint64(len(rest)) < uint64(length) {
			return nil, fault("kind %d: body of %d bytes, of which %d are there", kind, length, len(rest))
		}
		if (kind == KindMeta) != (len(r.Frames) == 0) {
			return nil, fault("kind %d, want meta (1) first and only there", kind)
		}
		f, err := decodeFrame(kind, rest[:length:length], r.Meta().Info.KernelRecord)
		if err != nil {
			return nil, fault("%w", err)
		}
		r.Frames = append(r.Frames, f)
		at += 8 + int(length)
	}
	if len(r.Frames) == 0 {
		return nil, fmt.Errorf("frame 0 at byte 0: nothing there, want meta")
	}
	return r, nil
}

// fixed is the least length of a body by kind: all of it, or what stands before its text.
var fixed = map[uint32]struct {
	name  string
	bytes int
	text  bool
}{
	KindMeta: {"meta", 0, true}, KindRaw: {"raw", 0, true}, KindName: {"name", 8, true}, KindLaunch: {"launch", 24, true},
	KindPush: {"push", 24, true}, KindPop: {"pop", 24, false}, KindDropped: {"dropped", 8, false},
	KindNodeCreated: {"node created", 16, true}, KindNodeCloned: {"node cloned", 16, false}, KindClocks: {"clocks", 32, false},
	KindGraphExec: {"graph exec", 8, false}, KindDomain: {"domain", 4, true}, KindCaptured: {"captured", 4, false},
	KindSchema: {"schema", 24, true}, KindPushPayload: {"push", 24 + payloadHead, true}, KindPopPayload: {"pop", 24 + payloadHead, true},
}

func decodeFrame(kind uint32, b []byte, kernelBytes int) (Frame, error) {
	want, known := fixed[kind]
	switch {
	case !known:
		return nil, fmt.Errorf("kind %d is not known", kind)
	case len(b) < want.bytes || (!want.text && len(b) > want.bytes):
		return nil, fmt.Errorf("%s: body of %d bytes, want %d", want.name, len(b), want.bytes)
	}
	u32 := func(at int) uint32 { return le.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return le.Uint64(b[at:]) }
	text := string(b[want.bytes:])
	switch kind {
	case KindMeta:
		info, err := parseInfo(b)
		if err != nil {
			return nil, fmt.Errorf("meta: %w", err)
		}
		return &Meta{JSON: text, Info: info}, nil
	case KindRaw:
		return decodeRaw(b, kernelBytes)
	case KindName:
		return &Name{u64(0), text}, nil
	case KindLaunch:
		return &Launch{u64(0), u32(8), u32(12), u32(16), u32(20), text}, nil
	case KindPush, KindPop, KindPushPayload, KindPopPayload:
		return decodeRange(kind, want.name, b)
	case KindDropped:
		return &Dropped{u64(0)}, nil
	case KindNodeCreated:
		return &NodeCreated{u64(0), u32(8), u32(12), text}, nil
	case KindNodeCloned:
		return &NodeCloned{u64(0), u64(8)}, nil
	case KindClocks:
		return &Clocks{u64(0), u64(8), u64(16), u64(24)}, nil
	case KindGraphExec:
		return &GraphExec{u32(0), u32(4)}, nil
	case KindSchema:
		return decodeSchema(b)
	case KindDomain:
		return &Domain{u32(0), text}, nil
	default:
		return &Captured{u32(0)}, nil
	}
}

// decodeRange reads a push or a pop, with or without a payload.
func decodeRange(kind uint32, name string, b []byte) (Frame, error) {
	at := Pop{Time: le.Uint64(b), Thread: le.Uint32(b[8:]), Depth: le.Uint32(b[12:]), Domain: le.Uint32(b[16:])}
	if zero := le.Uint32(b[20:]); zero != 0 {
		return nil, fmt.Errorf("%s: %d at byte 20, want 0", name, zero)
	}
	b = b[24:]
	if kind == KindPushPayload || kind == KindPopPayload {
		var err error
		if at.Payload, b, err = decodePayload(name, b); err != nil {
			return nil, err
		}
	}
	if kind == KindPush || kind == KindPushPayload {
		return &Push{at.Time, at.Thread, at.Depth, at.Domain, string(b), at.Payload}, nil
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%s: %d bytes after its payload", name, len(b))
	}
	return &at, nil
}

func decodeRaw(b []byte, kernelBytes int) (*Raw, error) {
	b = bytes.Clone(b) // setters write into records
	raw := &Raw{}
	for at := 0; at < len(b); {
		if len(b)-at < 4 {
			return nil, fmt.Errorf("raw: record %d at byte %d: %d bytes, want a kind of 4", len(raw.Records), at, len(b)-at)
		}
		kind := le.Uint32(b[at:])
		n := map[uint32]int{KindKernel: kernelBytes, KindMemcpy: memcpyBytes, KindMemset: memsetBytes}[kind]
		if n == 0 {
			return nil, fmt.Errorf("raw: record %d at byte %d: kind %d is not known", len(raw.Records), at, kind)
		}
		if len(b)-at < n {
			return nil, fmt.Errorf("raw: record %d at byte %d: kind %d: %d bytes, want %d", len(raw.Records), at, kind, len(b)-at, n)
		}
		raw.Records = append(raw.Records, b[at:at+n:at+n])
		at += n
	}
	return raw, nil
}
