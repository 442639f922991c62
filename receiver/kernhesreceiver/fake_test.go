package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

var le = binary.LittleEndian

// A fakeEngine understands INFO frames whose body is a word: "step ID" closes a step, "outside" settles a record without
// one, "hold" begins something that stays open until "release", "pack" something that waits for a cut, "chunk BYTES" makes
// a chunk of three kernels and two copies, "lose" counts a lost record, "bad" is a protocol error.
type fakeEngine struct {
	hello wire.Hello
	since time.Time
	got   uint64
	held  uint64
	pack  uint64
	lines []engine.StepTotals
	taken int // lines and chunks not yet settled

	chunks []engine.OutboundChunk
	last   []engine.OutboundChunk // made when it ends
	became []bool                 // of chunks, in order: taken by the pipeline, or refused
	count  engine.Unattributed
	asked  int // how often the counts were asked for
	steps  uint64
	lost   uint64
	over   bool
}

func (e *fakeEngine) Frame(f wire.Frame) error {
	if f.Pinned() || f.Number <= e.got && f.Number != 0 {
		return nil
	}
	e.got = f.Number
	switch word, id, _ := strings.Cut(string(f.Body), " "); {
	case f.Kind == wire.KindBye:
	case word == "step":
		e.steps++
		e.lines = append(e.lines, engine.StepTotals{Kind: "step", Session: engine.SessionName(e.hello.Session), ID: id, Frame: f.Number, Complete: true})
	case word == "outside":
		e.count.Outside++
	case word == "lose":
		e.lost++
	case word == "hold":
		e.held = f.Number
	case word == "pack":
		e.pack = f.Number
	case word == "chunk":
		bytes, err := strconv.Atoi(id)
		if err != nil {
			return err
		}
		e.chunks = append(e.chunks, fakeChunk(bytes))
	case word == "release":
		e.held = 0
	case word == "bad":
		return fmt.Errorf("frame %d: %w", f.Number, wire.ErrBadFrame)
	}
	return nil
}

// fakeChunk is a chunk of three kernels and two copies.
func fakeChunk(bytes int) engine.OutboundChunk {
	return engine.OutboundChunk{Sealed: &chunk.Sealed{Body: make([]byte, bytes), Kernels: 3, Copies: 2}, Source: &engine.Source{}}
}

func (e *fakeEngine) Received() uint64 { return e.got }

func (e *fakeEngine) Acknowledgeable() uint64 {
	switch {
	case e.taken > 0:
		return 0
	case e.held > 0:
		return e.held - 1
	case e.pack > 0:
		return e.pack - 1
	}
	return e.got
}

func (e *fakeEngine) Holds() (uint64, string) { return e.Acknowledgeable(), "a word" }

func (e *fakeEngine) TakeSteps() []engine.StepTotals {
	lines := e.lines
	e.lines = nil
	e.taken += len(lines)
	return lines
}

func (e *fakeEngine) TakeChunks() []engine.OutboundChunk {
	chunks := e.chunks
	e.chunks = nil
	e.taken += len(chunks)
	return chunks
}

func (e *fakeEngine) Delivered(_ engine.OutboundChunk, taken bool) {
	e.became = append(e.became, taken)
}

func (e *fakeEngine) Cut()                              { e.pack = 0 }
func (e *fakeEngine) Settled()                          { e.taken = 0 }
func (e *fakeEngine) Unattributed() engine.Unattributed { e.asked++; return e.count }
func (e *fakeEngine) Ended() bool                       { return e.over }

func (e *fakeEngine) End(bool) {
	e.over, e.held, e.pack = true, 0, 0
	e.chunks, e.last = append(e.chunks, e.last...), nil
}

func (e *fakeEngine) Reports() []engine.Report {
	return []engine.Report{{Info: e.hello.Info, Kernels: e.steps + e.count.Outside,
		Became: engine.KernelStates{InSteps: e.steps, Outside: e.count.Outside}, Complete: e.steps,
		Whole: true, SinceNS: uint64(e.since.UnixNano()), Dropped: map[string]uint64{"other": e.lost}}}
}

// A bench is a receiver with a fake engine behind it.
type bench struct {
	t    *testing.T
	r    *kernhesReceiver
	cfg  *Config
	sink *consumertest.MetricsSink
	tel  *componenttest.Telemetry
	logs *observer.ObservedLogs
}

// newBench starts a receiver that exports only at the end of sessions unless change says otherwise.
func newBench(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	return newBenchOn(t, componenttest.NewNopHost(), func(h wire.Hello) account { return &fakeEngine{hello: h, since: time.Now()} }, change)
}

// newBenchOn starts one on a host, with an engine of choice behind it; nil: the real one.
func newBenchOn(t *testing.T, host component.Host, newEngine func(wire.Hello) account, change func(*Config), before ...func(*kernhesReceiver)) *bench {
	t.Helper()
	b := &bench{t: t, cfg: createDefaultConfig().(*Config), sink: &consumertest.MetricsSink{}, tel: componenttest.NewTelemetry()}
	b.cfg.Endpoint = filepath.Join(t.TempDir(), "k.sock")
	b.cfg.CollectionInterval = time.Hour
	b.cfg.ControlEndpoint = "127.0.0.1:0"
	if change != nil {
		change(b.cfg)
	}
	core, logs := observer.New(zap.DebugLevel)
	b.logs = logs
	set := receivertest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = b.tel.NewTelemetrySettings()
	set.Logger = zap.New(core)
	r, err := newReceiver(set, b.cfg, newEngine)
	require.NoError(t, err)
	r.metrics = b.sink
	for _, f := range before {
		f(r)
	}
	b.r = r
	require.NoError(t, confmap.Validate(b.cfg))
	require.NoError(t, r.Start(t.Context(), host))
	t.Cleanup(func() {
		require.NoError(t, r.Shutdown(context.Background()))
		require.NoError(t, b.tel.Shutdown(context.Background()))
	})
	return b
}

// number reads one of the receiver's own instruments, summed over its attributes.
func (b *bench) number(name string) (sum int64) {
	b.t.Helper()
	m, err := b.tel.GetMetric("otelcol_" + name)
	if err != nil {
		return 0
	}
	return total(b.t, m)
}

// A client is the shim's side of a connection.
type client struct {
	t *testing.T
	net.Conn
	reader *wire.Reader
}

func (b *bench) dial() *client {
	b.t.Helper()
	c, err := net.Dial(b.r.listener.Addr().Network(), b.r.listener.Addr().String())
	require.NoError(b.t, err)
	return b.client(c)
}

// client speaks over a connection.
func (b *bench) client(c net.Conn) *client {
	b.t.Helper()
	b.t.Cleanup(func() { _ = c.Close() })
	require.NoError(b.t, c.SetDeadline(time.Now().Add(30*time.Second)))
	return &client{b.t, c, wire.NewReader(c)}
}

// connect dials and says HELLO; it returns what WELCOME answered.
func (b *bench) connect(session uint64, pairs ...string) (c *client, acknowledged, received uint64) {
	b.t.Helper()
	c = b.dial()
	c.write(hello(wire.Version, session, pairs...))
	body := c.read(wire.KindWelcome)
	return c, binary.LittleEndian.Uint64(body[16:]), binary.LittleEndian.Uint64(body[24:])
}

func hello(version uint16, session uint64, pairs ...string) []byte {
	body := binary.LittleEndian.AppendUint64(nil, wire.Magic)
	body = binary.LittleEndian.AppendUint64(body, uint64(version))
	body = binary.LittleEndian.AppendUint64(body, session)
	pairs = append([]string{"run", "r1", "pid", "77", "engine", "vllm"}, pairs...)
	for i := 0; i < len(pairs); i += 2 {
		body = wire.AppendPair(body, pairs[i], pairs[i+1])
	}
	return wire.AppendFrame(nil, wire.KindHello, 0, 0, body)
}

func (c *client) write(b []byte) {
	c.t.Helper()
	_, err := c.Write(b)
	require.NoError(c.t, err)
}

// word sends what a fakeEngine understands.
func (c *client) word(number uint64, word string) {
	c.t.Helper()
	c.write(wire.AppendFrame(nil, wire.KindInfo, 0, number, []byte(word)))
}

func (c *client) bye(number uint64) {
	c.t.Helper()
	c.write(wire.AppendFrame(nil, wire.KindBye, 0, number, make([]byte, 24)))
}

// read returns the body of the next frame, which must be of that kind.
func (c *client) read(kind wire.Kind) []byte {
	c.t.Helper()
	f, err := c.reader.Next()
	require.NoError(c.t, err)
	require.Equal(c.t, kind, f.Kind, "%q", f.Body)
	return f.Body
}

// ack reads acknowledgements until one says number.
func (c *client) ack(number uint64) {
	c.t.Helper()
	for {
		got := binary.LittleEndian.Uint64(c.read(wire.KindAck))
		require.LessOrEqual(c.t, got, number)
		if got == number {
			return
		}
	}
}

// closed reads until the receiver closes, and returns the text of a REFUSED.
func (c *client) closed() (refused string) {
	c.t.Helper()
	for {
		f, err := c.reader.Next()
		if err != nil {
			// A reset says that the receiver closed with bytes unread.
			require.True(c.t, err == io.EOF || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE), err)
			return refused
		}
		if f.Kind == wire.KindRefused {
			refused = string(f.Body[8:])
		}
	}
}
