package wire

import (
	"crypto/sha256"
	"fmt"
)

// Limits of HELLO, INFO and STRINGS.
const (
	MaxPairs = 256
	MaxKey   = 64
	MaxValue = 4096
)

// KeyToken is the key of the token that a collector may ask for; it is HELLO's alone.
const KeyToken = "token"

// MaxHello is the longest body of a HELLO, in bytes. It is small: any peer that may connect can send one before a token is asked for.
const MaxHello = 128 << 10

// A Hello opens a session.
type Hello struct {
	Version uint16
	Session uint64
	Info    map[string]string
}

// Public is what a session is called everywhere but on the wire. Who reads it cannot ask for the session: that takes the number that
// the engine chose.
func Public(session uint64) uint64 {
	sum := sha256.Sum256(le.AppendUint64([]byte("kernhes session "), session))
	return le.Uint64(sum[:])
}

// ParseHello reads a HELLO body. The caller checks its version.
func ParseHello(body []byte) (Hello, error) {
	const size = 24
	if len(body) < size {
		return Hello{}, bad(KindHello, 0, "%d bytes, want at least %d", len(body), size)
	}
	if m := le.Uint64(body); m != Magic {
		return Hello{}, bad(KindHello, 0, "magic %#x, want %#x", m, uint64(Magic))
	}
	info, err := parsePairs(KindHello, body, size)
	return Hello{Version: le.Uint16(body[8:]), Session: le.Uint64(body[16:]), Info: info}, err
}

// ParseInfo reads an INFO body.
func ParseInfo(body []byte) (map[string]string, error) { return parsePairs(KindInfo, body, 0) }

func parsePairs(k Kind, body []byte, at int) (map[string]string, error) {
	pairs := map[string]string{}
	for at < len(body) {
		b := body[at:]
		if len(b) < 8 {
			return nil, bad(k, at, "%d bytes left, a key-value pair has at least 8", len(b))
		}
		key, value := int(le.Uint16(b)), le.Uint32(b[4:])
		if key > MaxKey || value > MaxValue || len(b) < 8+key+int(value) {
			return nil, bad(k, at, "key of %d bytes and value of %d with %d left, at most %d and %d", key, value, len(b)-8, MaxKey, MaxValue)
		}
		if len(pairs) == MaxPairs {
			return nil, bad(k, at, "more than %d pairs", MaxPairs)
		}
		pairs[Text(b[8:8+key])] = Text(b[8+key : 8+key+int(value)])
		at += 8 + key + int(value)
	}
	return pairs, nil
}

// AppendPair appends a key and a value as HELLO and INFO hold them.
func AppendPair(b []byte, key, value string) []byte {
	b = le.AppendUint16(b, uint16(len(key)))
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, uint32(len(value)))
	return append(append(b, key...), value...)
}

// Strings calls f with each id and text of a STRINGS body; the text is valid during the call.
func Strings(body []byte, f func(id uint32, text []byte)) error {
	for at := 0; at < len(body); {
		b := body[at:]
		if len(b) < 8 {
			return bad(KindStrings, at, "%d bytes left, a string has at least 8", len(b))
		}
		id, n := le.Uint32(b), le.Uint32(b[4:])
		if id == 0 || n > MaxText || len(b) < 8+int(n+7)&^7 {
			return bad(KindStrings, at, "string %d of %d bytes with %d left, at most %d", id, n, len(b)-8, MaxText)
		}
		f(id, b[8:8+n])
		at += 8 + int(n+7)&^7
	}
	return nil
}

// A Flushed is a heartbeat and the last completed flush.
type Flushed struct {
	Now       uint64 // unix ns
	Flushed   uint64 // unix ns at which the last completed flush began; 0: none yet
	Monotonic uint64 // CLOCK_MONOTONIC at Now, ns
	Readable  bool   // CUPTI's drop counter could be read
}

// ParseFlushed reads a FLUSHED body.
func ParseFlushed(body []byte) (Flushed, error) {
	if err := atLeast(KindFlushed, body, 32); err != nil {
		return Flushed{}, err
	}
	return Flushed{le.Uint64(body), le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint32(body[24:])&1 != 0}, nil
}

// What was lost.
const (
	LostRecords = 0 // kernels or copies, not known which
	LostKernels = 1
	LostCopies  = 2
	LostEvents  = 3
)

// A Lost is a loss that the shim saw.
type Lost struct {
	Reason   uint32 // its number; internal/books has the names
	What     uint32
	Count    uint64
	From, To uint64 // unix ns; 0: not known
}

// ParseLost reads a LOST body.
func ParseLost(body []byte) (Lost, error) {
	if err := atLeast(KindLost, body, 32); err != nil {
		return Lost{}, err
	}
	return Lost{le.Uint32(body), le.Uint32(body[4:]), le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:])}, nil
}

// Keys of STATS.
const (
	StatCPU            = 1  // ns
	StatSentBytes      = 2  // bytes
	StatQueuedBytes    = 3  // bytes, now
	StatQueuedBytesMax = 4  // bytes
	StatBuffers        = 5  // now
	StatBuffersMax     = 6  //
	StatCallbacks      = 7  //
	StatKernels        = 8  // records seen
	StatCopies         = 9  // records seen
	StatEvents         = 10 //
	StatConnects       = 11 //
	StatFlushes        = 12 //
	StatFlushTime      = 13 // ns
	StatSlowFlushes    = 14 //
	StatTextsCut       = 15 //
	StatPinnedDropped  = 16 //
	StatBufferRequests = 17 //
	StatCallbackTime   = 18 // ns, estimated
	StatRangeTime      = 19 // ns, estimated
	StatBufferTime     = 20 // ns
	StatRanges         = 21 //
	StatWindows        = 22 // traced and left; this and the next ones in the mode windows only
	StatWindowsLeft    = 23 // now
	StatWindowsMissed  = 24 // orders
	StatHolds          = 25 //
	StatHeldTime       = 26 // ns
	StatHoldsFailed    = 27 //
	StatFinalizeTime   = 28 // ns

	StatLast = StatFinalizeTime // the last that is known
)

type stat [16]byte

// Stats calls f with each statistic of a STATS body.
func Stats(body []byte, f func(key uint32, value uint64)) error {
	stats, err := array[stat](KindStats, body)
	for i := range stats {
		f(le.Uint32(stats[i][0:4]), le.Uint64(stats[i][8:16]))
	}
	return err
}

// A Clock is a bracketed reading of CUPTI's clock; all in ns.
type Clock struct{ Before, CUPTI, After, Monotonic uint64 }

// ParseClock reads a CLOCK body.
func ParseClock(body []byte) (Clock, error) {
	if err := atLeast(KindClock, body, 32); err != nil {
		return Clock{}, err
	}
	return Clock{le.Uint64(body), le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:])}, nil
}

// A Base ends the snapshot, which is the state after frame Number.
type Base struct {
	Number      uint64
	Correlation uint32 // of the last launch up to Number
	Launches    bool   // there was one
}

// ParseBase reads a BASE body.
func ParseBase(body []byte) (Base, error) {
	if err := atLeast(KindBase, body, 16); err != nil {
		return Base{}, err
	}
	return Base{le.Uint64(body), le.Uint32(body[8:]), le.Uint32(body[12:]) != 0}, nil
}

// A Bye ends a session.
type Bye struct {
	Reason  uint32 // 1 exit, 2 detach
	Kernels uint64 // records seen
	Copies  uint64 // records seen
}

// ParseBye reads a BYE body.
func ParseBye(body []byte) (Bye, error) {
	if err := atLeast(KindBye, body, 24); err != nil {
		return Bye{}, err
	}
	return Bye{le.Uint32(body), le.Uint64(body[8:]), le.Uint64(body[16:])}, nil
}

// atLeast lets a body be longer than known, since layouts grow at their end.
func atLeast(k Kind, body []byte, n int) error {
	if len(body) < n {
		return bad(k, 0, "%d bytes, want %d", len(body), n)
	}
	return nil
}

// A Welcome answers HELLO.
type Welcome struct {
	Acknowledged uint64 // highest frame that the shim may free; 0: the session is not known
	Received     uint64 // highest frame that need not be sent again
}

// AppendWelcome appends a WELCOME frame.
func AppendWelcome(b []byte, w Welcome) []byte {
	body := le.AppendUint64(nil, Magic)
	body = le.AppendUint64(body, Version)
	body = le.AppendUint64(body, w.Acknowledged)
	body = le.AppendUint64(body, w.Received)
	return AppendFrame(b, KindWelcome, 0, 0, body)
}

// AppendAck appends an ACK frame: everything up to number is settled.
func AppendAck(b []byte, number uint64) []byte {
	return AppendFrame(b, KindAck, 0, 0, le.AppendUint64(nil, number))
}

// Commands of CONTROL.
const (
	CommandWindow = 1 // start, end (unix ns) and id of a tracing window; end 0: cancel
	CommandYield  = 2 // let go of CUPTI; the argument is the ns after which the shim takes it back by itself
	CommandResume = 3 // take it back now
	CommandPlace  = 4 // where steps are pushed: domain, thread (0: any), depth after the push (0: forget)
	CommandRanges = 5 // which ranges are sent while nothing is traced: greatest depth (0: all), domains as bits
)

// AppendControl appends a CONTROL frame with up to four arguments; those that are missing are 0.
func AppendControl(b []byte, command uint32, arguments ...uint64) []byte {
	body := le.AppendUint32(nil, command)
	body = le.AppendUint32(body, 0)
	for i := range 4 {
		var argument uint64
		if i < len(arguments) {
			argument = arguments[i]
		}
		body = le.AppendUint64(body, argument)
	}
	return AppendFrame(b, KindControl, 0, 0, body)
}

// Codes of REFUSED.
const (
	RefusedVersion  = 1
	RefusedLimit    = 2
	RefusedProtocol = 3
	RefusedAuth     = 4
)

// AppendRefused appends a REFUSED frame; the text is for a person who reads the shim's log.
func AppendRefused(b []byte, code uint32, format string, args ...any) []byte {
	text := fmt.Sprintf(format, args...)
	text = text[:min(len(text), MaxText)]
	body := le.AppendUint32(nil, code)
	body = le.AppendUint32(body, uint32(len(text)))
	return AppendFrame(b, KindRefused, 0, 0, append(body, text...))
}
