package wire

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
)

// cross compiles testdata/cross.c, which knows nothing but wire.h.
func cross(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cross")
	out, err := exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I../../shim/transport", "-o", program, "testdata/cross.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// describe is everything that the package reads out of a frame, as text.
func describe(f Frame) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %d:", f.Kind, f.Flags, f.Number)
	say := func(v any) { fmt.Fprintf(&b, " %v", v) }
	var err error
	switch f.Kind {
	case KindHello:
		var h Hello
		h, err = ParseHello(f.Body)
		say(h)
	case KindInfo:
		var m map[string]string
		m, err = ParseInfo(f.Body)
		say(m)
	case KindStrings:
		err = Strings(f.Body, func(id uint32, text []byte) { fmt.Fprintf(&b, " %d=%q", id, text) })
	case KindEvents:
		err = Events(f.Body, func(e Event) { b.WriteString("\n  " + event(e)) })
	case KindKernels:
		var all []Kernel
		all, err = Kernels(f.Body)
		for i := range all {
			k := &all[i]
			gx, gy, gz := k.Grid()
			bx, by, bz := k.Block()
			say([]any{k.Start(), k.End(), k.Node(), k.Correlation(), k.Name(), k.Stream(), k.Device(), k.Registers(), gx, gy, gz, bx, by, bz,
				k.Context(), k.SharedStatic(), k.SharedDynamic()})
			s := k.Static()
			sx, sy, sz := s.Grid()
			tx, ty, tz := s.Block()
			say([]any{s.Name(), s.Stream(), sx, sy, sz, tx, ty, tz})
		}
	case KindCopies:
		var all []Copy
		all, err = Copies(f.Body)
		for i := range all {
			c := &all[i]
			say([]any{c.Start(), c.End(), c.Node(), c.Bytes(), c.Correlation(), c.Stream(), c.Device(), c.Kind(), c.CopyKind()})
		}
	case KindFlushed:
		var v Flushed
		v, err = ParseFlushed(f.Body)
		say(v)
	case KindLost:
		var v Lost
		v, err = ParseLost(f.Body)
		say(v)
	case KindStats:
		err = Stats(f.Body, func(k uint32, v uint64) { fmt.Fprintf(&b, " %d=%d", k, v) })
	case KindClock:
		var v Clock
		v, err = ParseClock(f.Body)
		say(v)
	case KindBase:
		var v Base
		v, err = ParseBase(f.Body)
		say(v)
	case KindBye:
		var v Bye
		v, err = ParseBye(f.Body)
		say(v)
	default:
		say(len(f.Body))
	}
	return b.String(), err
}

func event(e Event) string {
	s := fmt.Sprintf("event %d thread %d time %d:", e.Kind(), e.Thread(), e.Time())
	switch e.Kind() {
	case EventPush:
		id, text := e.Text()
		return s + fmt.Sprintf(" domain %d text %d %q depth %d", e.Domain(), id, text, e.Depth())
	case EventPop:
		return s + fmt.Sprintf(" domain %d depth %d", e.Domain(), e.Depth())
	case EventStart:
		id, text := e.Text()
		return s + fmt.Sprintf(" range %d domain %d text %d %q", e.Range(), e.Domain(), id, text)
	case EventEnd:
		return s + fmt.Sprintf(" range %d", e.Range())
	case EventLaunch, EventCaptured:
		return s + fmt.Sprintf(" correlation %d graph %t", e.Correlation(), e.GraphLaunch())
	case EventNodeCreated:
		return s + fmt.Sprintf(" node %#x in launch %t", e.Node(), e.InLaunch())
	case EventNodeCloned:
		return s + fmt.Sprintf(" node %#x clone %#x", e.Node(), e.Clone())
	case EventGraphForgotten:
		return s + fmt.Sprintf(" graph %d", e.Graph())
	case EventNodeForgotten:
		return s + fmt.Sprintf(" node %#x", e.Node())
	case EventDomain:
		_, text := e.Text()
		return s + fmt.Sprintf(" domain %d %q", e.Domain(), text)
	case EventSchema:
		s += fmt.Sprintf(" schema %#x domain %d size %d pack %d type %d", e.Schema(), e.Domain(), e.Size(), e.Pack(), e.SchemaType())
		e.Entries(func(n SchemaEntry) { s += fmt.Sprintf(" [%#x %d %d %q]", n.Type, n.Flags, n.Offset, n.Name) })
	case EventTracingOn, EventTracingOff:
		return s + fmt.Sprintf(" window %d reason %d", e.Window(), e.Reason())
	case EventPayload:
		return s + fmt.Sprintf(" site %d range %d domain %d depth %d schema %#x size %d %v", e.Site(), e.Range(), e.Domain(), e.Depth(), e.Schema(), e.Size(), e.Data())
	}
	return s
}

const fromC = `HELLO 0 0: {1 1234605616436508552 map[rank:3 run:r1]}
INFO 1 0: map[mode:hes]
BASE 0 0: {41 42 true}
STRINGS 0 1: 5="abc"
EVENTS 0 2:
  event 1 thread 71 time 1001: domain 2 text 0 "hello" depth 4
  event 2 thread 72 time 1002: domain 2 depth 4294967295
  event 3 thread 73 time 1003: range 77 domain 6 text 5 ""
  event 4 thread 74 time 1004: range 77
  event 5 thread 75 time 1005: correlation 99 graph true
  event 6 thread 76 time 1006: correlation 98 graph false
  event 7 thread 77 time 1007: node 0x700000008 in launch true
  event 8 thread 78 time 1008: node 0x700000008 clone 0x900000008
  event 9 thread 79 time 1009: graph 7
  event 10 thread 80 time 1010: node 0x700000008
  event 11 thread 81 time 1011: domain 2 "NCCL"
  event 12 thread 82 time 1012: schema 0x1000005 domain 2 size 24 pack 4 type 1 [0x12 1 0 "name"] [0x1000018 2 8 ""]
  event 13 thread 83 time 1013: site 3 range 77 domain 2 depth 4 schema 0x1000005 size 24 [1 2 3]
  event 14 thread 84 time 1014: window 5 reason 1
  event 15 thread 85 time 1015: window 6 reason 4
KERNELS 0 3: [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17] [5 6 9 10 11 12 13 14]
COPIES 0 4: [1 2 3 4 5 6 7 22 10]
FLUSHED 0 5: {1 2 3 true}
LOST 0 6: {4 1 3 4 5}
STATS 0 7: 1=10 17=11
MANIFEST 0 8: 2
CLOCK 0 9: {1 2 3 4}
BYE 0 10: {1 2 3}
`

func TestGoReadsWhatCWrote(t *testing.T) {
	out, err := exec.Command(cross(t), "write").Output()
	require.NoError(t, err)
	r := NewReader(bytes.NewReader(out))
	var got strings.Builder
	for {
		f, err := r.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		text, err := describe(f)
		require.NoError(t, err)
		got.WriteString(text + "\n")
	}
	require.Equal(t, fromC, got.String())
	require.EqualValues(t, len(out), r.Bytes())
}

func TestCReadsWhatGoWrote(t *testing.T) {
	b := AppendWelcome(nil, Welcome{Acknowledged: 7, Received: 9})
	b = AppendAck(b, 8)
	b = AppendRefused(b, RefusedLimit, "no room for %d", 3)
	read := exec.Command(cross(t), "read")
	read.Stdin = bytes.NewReader(b)
	out, err := read.Output()
	require.NoError(t, err)
	require.Equal(t, `kind 64 flags 0 number 0: magic 1 version 1 acknowledged 7 received 9
kind 65 flags 0 number 0: number 8
kind 67 flags 0 number 0: code 2 text no room for 3
`, string(out))
}

// TestNumbersAreFrozen holds every number of wire.h to the list of those that were ever on the wire, and Go's to it.
func TestNumbersAreFrozen(t *testing.T) {
	header, err := os.ReadFile("../../shim/transport/wire.h")
	require.NoError(t, err)
	var numbers strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^#define (KW_\w+) (\(?[\w<< ]+\)?)(?: *//.*)?$`).FindAllStringSubmatch(string(header), -1) {
		fmt.Fprintf(&numbers, "%s %s\n", m[1], strings.TrimSpace(m[2]))
	}
	frozen, err := os.ReadFile("testdata/frozen.txt")
	require.NoError(t, err)
	require.Equal(t, string(frozen), numbers.String(), "a number on the wire changed, or one is new and not in testdata/frozen.txt yet")

	c := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(string(frozen))
		require.NotNil(t, m, name)
		return strings.TrimRight(m[1], "ul")
	}
	for name, v := range map[string]any{
		"KW_HELLO": KindHello, "KW_INFO": KindInfo, "KW_STRINGS": KindStrings, "KW_EVENTS": KindEvents, "KW_KERNELS": KindKernels,
		"KW_COPIES": KindCopies, "KW_FLUSHED": KindFlushed, "KW_LOST": KindLost, "KW_STATS": KindStats, "KW_MANIFEST": KindManifest,
		"KW_CLOCK": KindClock, "KW_BASE": KindBase, "KW_BYE": KindBye, "KW_WELCOME": KindWelcome, "KW_ACK": KindAck,
		"KW_CONTROL": KindControl, "KW_REFUSED": KindRefused, "KW_PINNED": FlagPinned, "KW_VERSION": Version,
		"KW_PUSH": EventPush, "KW_POP": EventPop, "KW_START": EventStart, "KW_END": EventEnd, "KW_LAUNCH": EventLaunch,
		"KW_CAPTURED": EventCaptured, "KW_NODE_CREATED": EventNodeCreated, "KW_NODE_CLONED": EventNodeCloned,
		"KW_GRAPH_FORGOTTEN": EventGraphForgotten, "KW_NODE_FORGOTTEN": EventNodeForgotten, "KW_DOMAIN": EventDomain,
		"KW_SCHEMA": EventSchema, "KW_PAYLOAD": EventPayload, "KW_MAX_PAYLOAD": MaxPayload, "KW_SCHEMA_ENUM": fmt.Sprintf("%#x", SchemaEnum),
		"KW_SITE_MARK":  SiteMark,
		"KW_TRACING_ON": EventTracingOn, "KW_TRACING_OFF": EventTracingOff, "KW_TRACING_ORDERED": TracingOrdered, "KW_TRACING_CANCELLED": TracingCancelled,
		"KW_TRACING_YIELDED": TracingYielded, "KW_TRACING_OVERDUE": TracingOverdue, "KW_TRACING_FAILED": TracingFailed,
		"KW_LAUNCH_GRAPH": LaunchGraph, "KW_NODE_IN_LAUNCH": NodeInLaunch, "KW_THREAD_LABELS": ThreadLabels, "KW_MAX_TEXT": MaxText,
		"KW_OF_RECORDS": LostRecords, "KW_OF_KERNELS": LostKernels, "KW_OF_COPIES": LostCopies, "KW_OF_EVENTS": LostEvents,
		"KW_STAT_CPU_NS": StatCPU, "KW_STAT_SENT_BYTES": StatSentBytes, "KW_STAT_QUEUED_BYTES": StatQueuedBytes,
		"KW_STAT_QUEUED_BYTES_MAX": StatQueuedBytesMax, "KW_STAT_BUFFERS": StatBuffers, "KW_STAT_BUFFERS_MAX": StatBuffersMax,
		"KW_STAT_CALLBACKS": StatCallbacks, "KW_STAT_KERNELS": StatKernels, "KW_STAT_COPIES": StatCopies, "KW_STAT_EVENTS": StatEvents,
		"KW_STAT_CONNECTS": StatConnects, "KW_STAT_FLUSHES": StatFlushes, "KW_STAT_FLUSH_NS": StatFlushTime,
		"KW_STAT_SLOW_FLUSHES": StatSlowFlushes, "KW_STAT_TEXTS_CUT": StatTextsCut, "KW_STAT_PINNED_DROPPED": StatPinnedDropped,
		"KW_STAT_BUFFER_REQUESTS": StatBufferRequests, "KW_STAT_CALLBACK_NS": StatCallbackTime, "KW_STAT_RANGE_NS": StatRangeTime,
		"KW_STAT_BUFFER_NS": StatBufferTime, "KW_STAT_RANGES": StatRanges,
		"KW_STAT_WINDOWS": StatWindows, "KW_STAT_WINDOWS_LEFT": StatWindowsLeft, "KW_STAT_WINDOWS_MISSED": StatWindowsMissed, "KW_STAT_HOLDS": StatHolds,
		"KW_STAT_HELD_NS": StatHeldTime, "KW_STAT_HOLDS_FAILED": StatHoldsFailed, "KW_STAT_FINALIZE_NS": StatFinalizeTime,
		"KW_COMMAND_WINDOW": CommandWindow, "KW_COMMAND_YIELD": CommandYield, "KW_COMMAND_RESUME": CommandResume,
		"KW_COMMAND_PLACE": CommandPlace, "KW_COMMAND_RANGES": CommandRanges,
		"KW_REFUSED_VERSION": RefusedVersion, "KW_REFUSED_LIMIT": RefusedLimit, "KW_REFUSED_PROTOCOL": RefusedProtocol, "KW_REFUSED_AUTH": RefusedAuth,
	} {
		if k, ok := v.(Kind); ok {
			v = uint16(k)
		}
		require.Equal(t, c(name), fmt.Sprint(v), name)
	}
	for _, r := range books.Reasons {
		if r.Wire != 0 {
			require.Equal(t, c("KW_LOST_"+strings.ToUpper(r.Name)), fmt.Sprint(r.Wire), r.Name)
		}
	}
	require.Equal(t, strings.Count(string(frozen), "KW_LOST_"), len(slices.DeleteFunc(slices.Clone(books.Reasons), func(r books.Reason) bool { return r.Wire == 0 })))
}

func TestBadBytesSayWhereAndWhy(t *testing.T) {
	check := func(k Kind, body []byte, want string) {
		t.Helper()
		_, err := describe(Frame{Kind: k, Number: 1, Body: body})
		require.ErrorIs(t, err, ErrBadFrame)
		require.ErrorContains(t, err, want)
	}
	check(KindHello, make([]byte, 8), "HELLO at byte 0: 8 bytes, want at least 24")
	check(KindHello, make([]byte, 24), "HELLO at byte 0: magic 0x0")
	check(KindInfo, []byte{1, 0, 0}, "INFO at byte 0: 3 bytes left")
	check(KindInfo, []byte{200, 0, 0, 0, 0, 0, 0, 0}, "INFO at byte 0: key of 200 bytes")
	check(KindInfo, []byte{0, 0, 0, 0, 255, 255, 255, 255}, "value of 4294967295")
	check(KindStrings, []byte{1, 0, 0, 0, 255, 255, 255, 255}, "STRINGS at byte 0: string 1 of 4294967295 bytes")
	check(KindStrings, make([]byte, 16), "STRINGS at byte 0: string 0")
	check(KindEvents, []byte{1, 0, 4}, "EVENTS at byte 0: 3 bytes left")
	check(KindEvents, make([]byte, 16), "event of 0 bytes")
	push := append([]byte{1, 0, 32, 0}, make([]byte, 28)...)
	push[24] = 9
	check(KindEvents, push, "EVENTS at byte 0: text of 9 bytes in an event of 32")
	schema := append([]byte{12, 0, 96, 0}, make([]byte, 92)...)
	schema[36] = 30
	check(KindEvents, schema, "EVENTS at byte 0: 30 bytes of a schema left, an entry has at least 40")
	schema[36], schema[48+32] = 48, 9
	check(KindEvents, schema, "EVENTS at byte 0: name of 9 bytes in an entry of a schema with 48 left")
	schema[36], schema[48+32] = 41, 1
	check(KindEvents, schema, "EVENTS at byte 0: name of 1 bytes in an entry of a schema with 41 left")
	payload := append([]byte{13, 0, 56, 0}, make([]byte, 52)...)
	payload[40] = 1
	check(KindEvents, payload, "EVENTS at byte 0: text of 1 bytes in an event of 56")
	unknown := append([]byte{99, 0, 16, 0}, make([]byte, 12)...)
	check(KindEvents, append(unknown, 1, 0, 32, 0), "EVENTS at byte 16: 4 bytes left")
	odd := append([]byte{99, 0, 20, 0}, make([]byte, 20)...)
	check(KindEvents, append(odd, unknown...), "EVENTS at byte 0: event of 20 bytes with 40 left")
	check(KindKernels, make([]byte, 65), "KERNELS at byte 64: 65 bytes, want a multiple of 64")
	check(KindStats, make([]byte, 8), "STATS at byte 0")
	check(KindFlushed, make([]byte, 31), "FLUSHED at byte 0: 31 bytes, want 32")
	check(KindLost, nil, "LOST at byte 0: 0 bytes, want 32")
	check(KindClock, nil, "CLOCK at byte 0")
	check(KindBase, make([]byte, 8), "BASE at byte 0: 8 bytes, want 16")
	check(KindBye, nil, "BYE at byte 0")

	huge := AppendFrame(nil, KindKernels, 0, 1, nil)
	le.PutUint32(huge, MaxBody+1)
	_, err := NewReader(bytes.NewReader(huge)).Next()
	require.ErrorIs(t, err, ErrBadFrame)
	require.ErrorContains(t, err, "frame of kind 5 at byte 0: body of 16777217 bytes, at most 16777216")

	r := NewReader(bytes.NewReader(AppendFrame(nil, KindHello, 0, 0, make([]byte, 9))))
	r.Limit(8)
	_, err = r.Next()
	require.ErrorIs(t, err, ErrBadFrame)
	require.ErrorContains(t, err, "body of 9 bytes, at most 8")
}

func TestTruncatedStreams(t *testing.T) {
	whole := AppendFrame(AppendFrame(nil, KindStats, 0, 1, make([]byte, 16)), KindStats, 0, 2, make([]byte, 16))
	for n := range whole {
		r := NewReader(bytes.NewReader(whole[:n]))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if n%32 == 0 {
			require.Equal(t, io.EOF, err, "cut at %d", n)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut at %d", n)
		}
	}
}

// TestALengthAloneTakesNoMemory: a connection that announces 16 MiB and sends nothing costs 256 KiB.
func TestALengthAloneTakesNoMemory(t *testing.T) {
	head := AppendFrame(nil, KindKernels, 0, 1, nil)
	le.PutUint32(head, MaxBody)
	r := NewReader(bytes.NewReader(head))
	_, err := r.Next()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.LessOrEqual(t, cap(r.body), 256<<10)
}

func TestLongerBodiesOfNewerShimsAreRead(t *testing.T) {
	for k, n := range map[Kind]int{KindFlushed: 40, KindLost: 48, KindClock: 40, KindBase: 24, KindBye: 32} {
		_, err := describe(Frame{Kind: k, Body: make([]byte, n)})
		require.NoError(t, err, k)
	}
	unknown := append([]byte{200, 0, 16, 0}, make([]byte, 12)...)
	require.NoError(t, Events(unknown, func(Event) { t.Error("an event of an unknown kind was given out") }))
}

var update = flag.Bool("update", false, "write the seeds anew")

// TestSeedsAreRealFrames keeps the fuzz seeds: a frame of each kind as C wrote it, and what a shim sends of a recording.
func TestSeedsAreRealFrames(t *testing.T) {
	every, err := exec.Command(cross(t), "write").Output()
	require.NoError(t, err)
	recording, err := krec.Read("../../testdata/recordings/tp2.rank1.krec.zst")
	require.NoError(t, err)
	var real []byte
	seen := map[uint16]int{}
	for _, f := range fakeshim.Frames(recording, fakeshim.Options{Deliver: fakeshim.Flush}) {
		if kind := le.Uint16(f[4:]); len(f) <= 4<<10 && seen[kind] < 3 {
			seen[kind]++
			real = append(real, f...)
		}
	}
	require.GreaterOrEqual(t, len(seen), 8, "kinds of frames")
	for name, b := range map[string][]byte{"every_kind": every, "tp2.rank1": real} {
		path := filepath.Join("testdata/seeds", name)
		if *update {
			require.NoError(t, os.WriteFile(path, b, 0o644))
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(b, have), "%s is not what is sent now; go test ./internal/wire -update", path)
	}
}

// FuzzDecode reads any bytes as a connection, whatever they are, and all that the frames hold.
func FuzzDecode(f *testing.F) {
	seeds, err := filepath.Glob("testdata/seeds/*")
	require.NoError(f, err)
	require.NotEmpty(f, seeds)
	for _, path := range seeds {
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(bytes.NewReader(b))
		for {
			frame, err := r.Next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrBadFrame) {
					t.Fatalf("an error of no known kind: %v", err)
				}
				return
			}
			if _, err := describe(frame); err != nil && !errors.Is(err, ErrBadFrame) {
				t.Fatalf("an error of no known kind: %v", err)
			}
		}
	})
}
