// Package wire is the protocol between libkernhes.so and the collector: bytes of a
// connection to frames and records, and the collector's answers to bytes.
//
// WIRE.md says what everything means; shim/transport/wire.h holds the layouts. Bytes are doubted here,
// once: what the parse functions return is true to its layout.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Version of the protocol; Magic opens HELLO and WELCOME ("KERNHES1" in memory).
const (
	Version = 1
	Magic   = 0x315345484e52454b
)

// MaxBody is the longest body of a frame, in bytes.
const MaxBody = 16 << 20

// HeaderSize is the size of a frame's header, in bytes.
const HeaderSize = 16

// A Kind says what a frame is.
type Kind uint16

// Kinds of frames; those from 64 on are the collector's.
const (
	KindHello    Kind = 1
	KindInfo     Kind = 2
	KindStrings  Kind = 3
	KindEvents   Kind = 4
	KindKernels  Kind = 5
	KindCopies   Kind = 6
	KindFlushed  Kind = 7
	KindLost     Kind = 8
	KindStats    Kind = 9
	KindManifest Kind = 10
	KindClock    Kind = 11
	KindBase     Kind = 12
	KindBye      Kind = 13

	KindWelcome Kind = 64
	KindAck     Kind = 65
	KindControl Kind = 66
	KindRefused Kind = 67
)

// FlagPinned marks a frame of the snapshot, which has number 0.
const FlagPinned = 1

// ErrBadFrame is wrapped by every error about bytes that do not fit the protocol.
var ErrBadFrame = errors.New("bad frame")

var le = binary.LittleEndian

// A header is the head of every frame.
type header [HeaderSize]byte

func (h *header) length() uint32 { return le.Uint32(h[0:4]) }
func (h *header) kind() Kind     { return Kind(le.Uint16(h[4:6])) }
func (h *header) flags() uint16  { return le.Uint16(h[6:8]) }
func (h *header) number() uint64 { return le.Uint64(h[8:16]) }

// A Frame is one frame as read.
type Frame struct {
	Kind   Kind
	Flags  uint16
	Number uint64 // from 1; 0: not numbered
	Body   []byte
}

// Pinned reports whether the frame belongs to the snapshot.
func (f Frame) Pinned() bool { return f.Flags&FlagPinned != 0 }

// A Reader reads frames from a connection into one buffer, which it uses again.
type Reader struct {
	r    io.Reader
	most uint32 // bytes of a body
	head header
	body []byte
	at   int64
}

// NewReader returns a Reader of r. It does not buffer: a frame is two reads, and bodies are large.
func NewReader(r io.Reader) *Reader { return &Reader{r: r, most: MaxBody} }

// Limit has bodies of more than so many bytes refused from now on, at most MaxBody.
func (r *Reader) Limit(bytes int) { r.most = uint32(min(bytes, MaxBody)) }

// Bytes is how many bytes of whole frames have been read.
func (r *Reader) Bytes() int64 { return r.at }

// Next reads a frame. Its body is valid until the next call. At a clean end of the stream the
// error is io.EOF; a stream cut inside a frame gives io.ErrUnexpectedEOF with the place.
func (r *Reader) Next() (Frame, error) {
	if _, err := io.ReadFull(r.r, r.head[:]); err != nil {
		if err == io.EOF {
			return Frame{}, io.EOF
		}
		return Frame{}, fmt.Errorf("frame header at byte %d: %w", r.at, err)
	}
	n := r.head.length()
	if n > r.most {
		return Frame{}, fmt.Errorf("frame of kind %d at byte %d: body of %d bytes, at most %d: %w",
			r.head.kind(), r.at, n, r.most, ErrBadFrame)
	}
	// Grown as bytes come, so that a length alone cannot take 16 MiB for a connection that sends nothing.
	r.body = r.body[:0]
	for len(r.body) < int(n) {
		from := len(r.body)
		to := min(int(n), max(from*2, 256<<10))
		if cap(r.body) < to {
			grown := make([]byte, from, to)
			copy(grown, r.body)
			r.body = grown
		}
		r.body = r.body[:to]
		if _, err := io.ReadFull(r.r, r.body[from:to]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return Frame{}, fmt.Errorf("body of frame %d (kind %d) at byte %d: %w", r.head.number(), r.head.kind(), r.at, err)
		}
	}
	r.at += HeaderSize + int64(n)
	return Frame{Kind: r.head.kind(), Flags: r.head.flags(), Number: r.head.number(), Body: r.body}, nil
}

// AppendFrame appends a whole frame to b.
func AppendFrame(b []byte, k Kind, flags uint16, number uint64, body []byte) []byte {
	b = le.AppendUint32(b, uint32(len(body)))
	b = le.AppendUint16(b, uint16(k))
	b = le.AppendUint16(b, flags)
	b = le.AppendUint64(b, number)
	return append(b, body...)
}

// bad is an error about the bytes at offset at of a body of kind k.
func bad(k Kind, at int, format string, args ...any) error {
	return fmt.Errorf("%s at byte %d: %s: %w", k, at, fmt.Sprintf(format, args...), ErrBadFrame)
}

var kindNames = map[Kind]string{
	KindHello: "HELLO", KindInfo: "INFO", KindStrings: "STRINGS", KindEvents: "EVENTS", KindKernels: "KERNELS",
	KindCopies: "COPIES", KindFlushed: "FLUSHED", KindLost: "LOST", KindStats: "STATS", KindManifest: "MANIFEST",
	KindClock: "CLOCK", KindBase: "BASE", KindBye: "BYE", KindWelcome: "WELCOME", KindAck: "ACK",
	KindControl: "CONTROL", KindRefused: "REFUSED",
}

func (k Kind) String() string {
	if s, ok := kindNames[k]; ok {
		return s
	}
	return fmt.Sprintf("kind %d", uint16(k))
}
