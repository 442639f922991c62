package kernhesreceiver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics/metricstest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
)

// dribble writes a byte at a time until the receiver closes.
func (c *client) dribble(b []byte) {
	for i := range b {
		if _, err := c.Write(b[i : i+1]); err != nil {
			return
		}
		time.Sleep(tick)
	}
}

// refusedFor waits until so many connections were refused for a reason, by what the log says.
func (b *bench) refusedFor(want int, text string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.number("kernhes_connections_refused") == int64(want) }, waitFor, tick)
	found := 0
	for _, e := range b.logs.FilterMessage("connection refused").All() {
		if strings.Contains(e.ContextMap()["reason"].(string), text) {
			found++
		}
	}
	assert.Equal(b.t, 1, found, "log lines with %q", text)
}

func TestSlowAndSilentPeersAreClosed(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.HandshakeTimeout, c.SilenceTimeout, c.ReconnectTimeout = 100*time.Millisecond, 300*time.Millisecond, time.Hour
	})
	slow := b.dial()
	slow.dribble(hello(wire.Version, 1, "model", strings.Repeat("x", wire.MaxValue)))
	slow.closed()
	b.refusedFor(1, "handshake_timeout")

	// A frame that never becomes whole; what came before it is acknowledged, and the session waits for the engine.
	c, _, _ := b.connect(2)
	c.word(1, "outside")
	c.dribble(wire.AppendFrame(nil, wire.KindInfo, 0, 2, bytes.Repeat([]byte("x"), 1<<20)))
	c.ack(1)
	c.closed()
	b.refusedFor(2, "silence_timeout")
	_, acknowledged, _ := b.connect(2)
	assert.EqualValues(t, 1, acknowledged)

	// And that one says nothing at all any more.
	require.Eventually(t, func() bool { return b.number("kernhes_connections_refused") == 3 }, waitFor, tick)
	assert.EqualValues(t, 1, b.number("kernhes_sessions"))
}

func TestAPeerThatDoesNotReadIsClosed(t *testing.T) {
	b := newBench(t, func(c *Config) { c.SilenceTimeout, c.ReconnectTimeout = time.Second, time.Hour })
	c, _, _ := b.connect(1)
	frame := func(n uint64) []byte { return wire.AppendFrame(nil, wire.KindInfo, 0, n, []byte("outside")) }
	for n := uint64(1); n < 1<<22; n++ { // until the acknowledgements fill what lies between
		if _, err := c.Write(frame(n)); err != nil {
			break
		}
	}
	b.refusedFor(1, "was not read")
	other, _, _ := b.connect(2)
	other.bye(1)
	other.ack(1)
}

func TestHelloIsNoLongerThanItsPairsCanMakeIt(t *testing.T) {
	b := newBench(t, nil)
	c := b.dial()
	c.write(wire.AppendFrame(nil, wire.KindHello, 0, 0, make([]byte, wire.MaxHello+1))[:wire.HeaderSize])
	assert.Contains(t, c.closed(), fmt.Sprintf("body of %d bytes, at most %d", wire.MaxHello+1, wire.MaxHello))
}

// A torrent is a session that sends kernels as fast as they are taken, until stop.
type torrent struct {
	frames atomic.Int64
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func (b *bench) torrent(session uint64) *torrent {
	b.t.Helper()
	c, _, _ := b.connect(session, "run", "flood")
	ctx, stop := context.WithCancel(b.t.Context())
	f := &torrent{stop: func() { stop(); _ = c.Close() }}
	f.done.Go(func() { _, _ = io.Copy(io.Discard, c) })
	f.done.Go(func() {
		body := make([]byte, 1<<20)
		for n := uint64(0); ctx.Err() == nil; n++ {
			at := shimscript.Us(n * 1000)
			for i := 0; i < len(body); i += 64 {
				copy(body[i:], shimscript.U64(at+uint64(i), at+uint64(i)+32))
			}
			frames := wire.AppendFrame(nil, wire.KindKernels, 0, 2*n+1, body)
			frames = wire.AppendFrame(frames, wire.KindFlushed, 0, 2*n+2, append(shimscript.U64(at, at, at), shimscript.U32(1, 0)...))
			if _, err := c.Write(frames); err != nil {
				return
			}
			f.frames.Add(1)
		}
	})
	return f
}

// kernelsOf is how many kernels of a run the metrics say were received.
func kernelsOf(run string, all ...pmetric.Metrics) (n int64) {
	for _, m := range all {
		for _, r := range m.ResourceMetrics().All() {
			if v, _ := r.Resource().Attributes().Get(metadata.ResourceKernRun); v.Str() != run {
				continue
			}
			for _, s := range r.ScopeMetrics().All() {
				for _, m := range s.Metrics().All() {
					if m.Name() == metadata.KernKernelsReceivedTotal.Name {
						n = max(n, m.Sum().DataPoints().At(0).IntValue())
					}
				}
			}
		}
	}
	return n
}

// TestAFloodStarvesNobody has paced sessions come and go while another sends all it can: every one is heard to its last kernel,
// and its metrics come, while the flood still runs.
func TestAFloodStarvesNobody(t *testing.T) {
	b := newBenchOn(t, componenttest.NewNopHost(), nil, nil, func(r *kernhesReceiver) { r.logs = consumertest.NewNop() })
	f := b.torrent(1)
	defer f.done.Wait()
	defer f.stop()
	require.Eventually(t, func() bool { return f.frames.Load() > 16 }, waitFor, tick)
	story := krec.Stories()[0].Recording
	storyKernels := 0
	for _, frame := range fakeshim.Frames(story, fakeshim.Options{}) {
		if le.Uint16(frame[4:]) == uint16(wire.KindKernels) {
			storyKernels += (len(frame) - wire.HeaderSize) / 64
		}
	}
	require.Positive(t, storyKernels)
	before := f.frames.Load()
	for i := range uint64(10) {
		run := fmt.Sprint("paced", i)
		frames := fakeshim.Frames(story, fakeshim.Options{Deliver: fakeshim.Flush, Run: run, Session: 2 + i})
		c := b.dial()
		for _, frame := range frames {
			c.write(frame)
		}
		c.read(wire.KindWelcome)
		c.ack(le.Uint64(frames[len(frames)-1][8:])) // BYE: the last numbers went out before
		require.EqualValues(t, storyKernels, kernelsOf(run, b.sink.AllMetrics()...))
		b.r.export(t.Context())
	}
	require.Eventually(t, func() bool { return f.frames.Load() > before }, waitFor, tick, "the flood still runs")
	b.r.export(t.Context())
	all := b.sink.AllMetrics()
	require.Positive(t, kernelsOf("flood", all...))
	ended := metricstest.Points(all[len(all)-1])["kern_sessions_ended_total"]
	for i := range 10 {
		assert.Equal(t, []any{int64(1)}, ended[fmt.Sprint("bye,paced", i)])
	}
}

// vile texts are no UTF-8, full of control characters, markup and what looks like another line of a log.
var vile = []string{"\xff\xfe\xc3(", "a\x00b\x1b[2J\r\n{\"level\":\"error\"}", "<script>alert(1)</script>\"'&",
	strings.Repeat("é\n", 2000), "\u202egnp\u2066.exe\u2069\u200f", "'; drop table k; --", "$(touch /tmp/x)`id`../../../etc/passwd", "{\"a\":1}\u2028%s%n"}

// TestVileTextsHarmNobody sends such as everything that is a text, and looks at all that comes out.
func TestVileTextsHarmNobody(t *testing.T) {
	logs := &consumertest.LogsSink{}
	traces := &consumertest.TracesSink{}
	b := newBenchOn(t, componenttest.NewNopHost(), nil, func(c *Config) { c.Traces.SampleOneIn = 1 },
		func(r *kernhesReceiver) { r.logs, r.traces = logs, traces })
	seen := 0
	check := func(where, text string) {
		t.Helper()
		seen++
		assert.True(t, utf8.ValidString(text), "%s: %q is no UTF-8", where, text)
		assert.False(t, strings.ContainsFunc(text, func(c rune) bool { return unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp) }),
			"%s: %q has characters that show it as something else", where, text)
	}
	attributes := func(where string, m pcommon.Map) {
		for k, v := range m.All() {
			check(where+" "+k, v.AsString())
		}
	}
	for i, text := range vile {
		text = text[:min(len(text), wire.MaxValue)]
		c, _, _ := b.connect(uint64(i+1), "run", text, "host", text, "engine", text, "model", text, "mode", text, "mode_reason", text,
			"engine_version", text, "gpu.0.name", text, "gpu.0.uuid", text, text[:min(len(text), wire.MaxKey)], text)
		s := &shimscript.Script{Out: func(f wire.Frame) { c.write(wire.AppendFrame(nil, f.Kind, f.Flags, f.Number, f.Body)) }}
		s.Text(1, text)
		s.Push(1, ("step:" + text + " k=" + text + ",tokens=1,rank=" + text)[:min(4000, 2*len(text)+20)])
		s.Push(2, text)
		s.Launch(3, 1)
		s.Pop(4)
		s.Pop(5)
		s.Named(1, 1, shimscript.Us(10), shimscript.Us(20))
		s.Flushed(1000)
		s.Flushed(20 * shimscript.Second)
		b.r.export(t.Context())
		_, page, _ := b.get(http.MethodGet, "/status?format=html", nil)
		assert.NotContains(t, string(page), "<script>")
		b.vilePages(check)
		c.write(wire.AppendFrame(nil, wire.KindBye, 0, s.Number+1, make([]byte, 24)))
		c.ack(s.Number + 1)
	}
	require.NoError(t, b.r.Shutdown(context.WithoutCancel(t.Context())))
	for _, m := range b.sink.AllMetrics() {
		for _, r := range m.ResourceMetrics().All() {
			attributes("metrics' resource", r.Resource().Attributes())
		}
		metricstest.Each(m, func(m pmetric.Metric) {
			for _, p := range metricstest.Numbers(m) {
				attributes(m.Name(), p.Attributes())
			}
		})
	}
	for _, all := range traces.AllTraces() {
		for _, r := range all.ResourceSpans().All() {
			attributes("traces' resource", r.Resource().Attributes())
			for _, scope := range r.ScopeSpans().All() {
				for _, span := range scope.Spans().All() {
					check("span", span.Name())
					attributes(span.Name(), span.Attributes())
				}
			}
		}
	}
	kernels := 0
	for _, all := range logs.AllLogs() {
		for _, r := range all.ResourceLogs().All() {
			attributes("logs' resource", r.Resource().Attributes())
			body, err := chunklog.Body(r.ScopeLogs().At(0).LogRecords().At(0))
			require.NoError(t, err)
			c, err := chunk.Unpack(body)
			require.NoError(t, err)
			vileFooter(t, c, check)
			kernels += c.Rows()
			check("chunk", c.Identity.Run+c.Identity.Host+c.Identity.GPUName)
			for _, s := range c.Steps {
				check("step", s.Text+s.Program+s.Vars)
				for _, p := range s.Shape.Positions {
					check("kernel", p.Name+p.Call)
				}
			}
		}
	}
	assert.Equal(t, len(vile), kernels)
	for _, e := range b.logs.All() {
		check("log", e.Message)
		for k, v := range e.ContextMap() {
			check("log's "+k, fmt.Sprint(v))
		}
	}
	assert.Greater(t, seen, 500)
}

// TestATextOverTheLimitEndsOnlyItsConnection: the library cuts names at 4,096 bytes.
func TestATextOverTheLimitEndsOnlyItsConnection(t *testing.T) {
	b := newBenchOn(t, componenttest.NewNopHost(), nil, nil)
	other, _, _ := b.connect(1)
	c, _, _ := b.connect(2)
	c.write(wire.AppendFrame(nil, wire.KindStrings, 0, 1, append(shimscript.U32(1, 1<<20), make([]byte, 1<<20)...)))
	assert.Contains(t, c.closed(), "STRINGS at byte 0: string 1 of 1048576 bytes")
	assert.EqualValues(t, 1, b.number("kernhes_protocol_errors"))
	other.bye(1)
	other.ack(1)
}
