package kernhesreceiver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap/zapcore"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata/metadatatest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics/metricstest"
)

// What happens on another goroutine is waited for: long enough for the slowest machine.
const (
	waitFor = 30 * time.Second
	tick    = time.Millisecond
)

// total sums an instrument over its attributes.
func total(t *testing.T, m metricdata.Metrics) (sum int64) {
	t.Helper()
	data, ok := m.Data.(metricdata.Sum[int64])
	require.True(t, ok)
	for _, p := range data.DataPoints {
		sum += p.Value
	}
	return sum
}

// TestDeclaredSignals holds the signals that metadata.yaml declares to those of the factory.
func TestDeclaredSignals(t *testing.T) {
	factory := NewFactory()
	got := map[string][]string{}
	for signal, level := range map[string]component.StabilityLevel{
		"metrics": factory.MetricsStability(), "traces": factory.TracesStability(), "logs": factory.LogsStability(),
	} {
		name := strings.ToLower(level.String())
		got[name] = append(got[name], signal)
	}
	want := metadatatest.Read(t, "metadata.yaml").Status.Stability
	require.Len(t, got, len(want))
	for level, signals := range want {
		require.ElementsMatch(t, signals, got[level], level)
	}
}

func TestLifecycle(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Endpoint = t.TempDir() + "/made/k.sock"
	factory := NewFactory()
	require.NoError(t, componenttest.CheckConfigStruct(factory.CreateDefaultConfig()))
	r, err := factory.CreateMetrics(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	require.NoError(t, r.Shutdown(t.Context()), "before Start")
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	info, err := os.Stat(cfg.Endpoint)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o660), info.Mode().Perm())

	other := *cfg
	second, err := factory.CreateMetrics(t.Context(), receivertest.NewNopSettings(metadata.Type), &other, consumertest.NewNop())
	require.NoError(t, err)
	require.ErrorContains(t, second.Start(t.Context(), componenttest.NewNopHost()), "endpoint: "+cfg.Endpoint+" is in use")
	require.NoError(t, second.Shutdown(t.Context()))

	require.NoError(t, r.Shutdown(t.Context()))
	require.NoError(t, r.Shutdown(t.Context()), "twice")
	require.NoFileExists(t, cfg.Endpoint)
}

// TestAFailedStartLeavesNothing: the writer of traces, the endpoints and the dump are closed (TestMain counts goroutines).
func TestAFailedStartLeavesNothing(t *testing.T) {
	first := newBench(t, nil)
	cfg := *first.cfg
	cfg.Dump = filepath.Join(t.TempDir(), "steps.jsonl")
	r, err := newReceiver(receivertest.NewNopSettings(metadata.Type), &cfg, nil)
	require.NoError(t, err)
	r.traces = consumertest.NewNop()
	require.ErrorContains(t, r.Start(t.Context(), componenttest.NewNopHost()), "is in use")
	require.NoError(t, r.Shutdown(t.Context()))

	cfg.Endpoint = t.TempDir() + "/other.sock"
	again, err := newReceiver(receivertest.NewNopSettings(metadata.Type), &cfg, nil)
	require.NoError(t, err)
	require.NoError(t, again.Start(t.Context(), componenttest.NewNopHost()), "the dump is free")
	require.NoError(t, again.Shutdown(t.Context()))
}

func TestSessionEndsWithBye(t *testing.T) {
	b := newBench(t, nil)
	c, acknowledged, received := b.connect(1)
	assert.Zero(t, acknowledged)
	assert.Zero(t, received)
	c.word(1, "step a")
	c.ack(1) // without another frame: the delay alone sends it
	c.word(2, "hold")
	c.word(3, "outside")
	c.word(4, "release")
	c.ack(4)
	c.bye(5)
	c.ack(5)

	// The last numbers went to the consumer before the acknowledgement.
	got := metricstest.Points(b.sink.AllMetrics()...)
	assert.Equal(t, []any{int64(1)}, got["kern_kernels_total"]["in_step"])
	assert.Equal(t, []any{int64(1)}, got["kern_kernels_total"]["outside"])
	assert.EqualValues(t, 0, b.number("kernhes_sessions"))
	assert.EqualValues(t, 5, b.number("kernhes_frames"))

	// Series of an ended session are not sent again.
	b.sink.Reset()
	b.r.export(t.Context())
	got = metricstest.Points(b.sink.AllMetrics()...)
	assert.NotContains(t, got, "kern_kernels_total")
	assert.Equal(t, []any{int64(1)}, got["kern_sessions_ended_total"]["bye,r1"])
	assert.Equal(t, []any{int64(0)}, got["kern_sessions"]["connected"])

	// An engine whose last acknowledgement was lost hears it again, and is no new session.
	c, acknowledged, received = b.connect(1)
	assert.EqualValues(t, 5, acknowledged)
	assert.EqualValues(t, 5, received)
	assert.Empty(t, b.r.sessions.Live(time.Now()))
	c.word(6, "step late")
	assert.Contains(t, c.closed(), "frame 6 after BYE")
}

func TestManyFramesAreAcknowledgedAtOnce(t *testing.T) {
	b := newBench(t, nil)
	c, _, _ := b.connect(1)
	for n := uint64(1); n <= 64; n++ {
		c.word(n, "outside")
	}
	c.ack(64)
}

func TestPackedStepsAreSettledWithinASecond(t *testing.T) {
	b := newBench(t, nil)
	c, _, _ := b.connect(1)
	c.word(1, "pack")
	c.ack(1)
	c.word(2, "hold")
	c.word(3, "pack")
	c.word(4, "release")
	c.ack(4)
}

func TestReconnect(t *testing.T) {
	b := newBench(t, nil)
	c, _, _ := b.connect(1)
	c.word(1, "step a")
	c.word(2, "hold")
	c.word(3, "outside")
	c.ack(1)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return b.number("kernhes_connections") == 0 }, waitFor, tick)

	c, acknowledged, received := b.connect(1)
	assert.EqualValues(t, 1, acknowledged)
	assert.EqualValues(t, 3, received)

	// A new connection takes the session over from one that still seems open.
	d, _, received := b.connect(1)
	assert.EqualValues(t, 3, received)
	c.closed()
	assert.EqualValues(t, 1, b.number("kernhes_sessions_taken_over"))
	d.word(4, "release")
	d.bye(5)
	d.ack(5)
	assert.Equal(t, []any{int64(1)}, metricstest.Points(b.sink.AllMetrics()...)["kern_kernels_total"]["in_step"])
}

func TestEngineGone(t *testing.T) {
	b := newBench(t, func(c *Config) { c.ReconnectTimeout = 20 * time.Millisecond })
	c, _, _ := b.connect(1)
	other, _, _ := b.connect(2, "pid", "78")
	c.word(1, "hold")
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool {
		b.r.export(t.Context())
		return metricstest.Points(b.sink.AllMetrics()...)["kern_sessions_ended_total"]["gone,r1"] != nil
	}, waitFor, tick)
	other.word(1, "outside")
	other.ack(1)

	// It was only slow: it is taken as new, from where it was.
	_, acknowledged, received := b.connect(1)
	assert.EqualValues(t, 1, acknowledged)
	assert.EqualValues(t, 1, received)
}

func TestBadConnectionsDisturbNobody(t *testing.T) {
	b := newBench(t, func(c *Config) { c.HandshakeTimeout = 200 * time.Millisecond })
	good, _, _ := b.connect(1)
	silent := make([]*client, 200)
	for i := range silent {
		silent[i] = b.dial()
	}
	check := func(name, wantRefused, wantLog string, send ...[]byte) {
		t.Helper()
		c := b.dial()
		for _, s := range send {
			c.write(s)
		}
		assert.Contains(t, c.closed(), wantRefused, name)
		found := false
		for _, entry := range b.logs.FilterLevelExact(zapcore.WarnLevel).All() {
			for _, field := range entry.ContextMap() {
				text, ok := field.(string)
				found = found || ok && strings.Contains(text, wantLog)
			}
		}
		assert.True(t, found, "%s: no log line with %q", name, wantLog)
	}
	check("garbage", "body of", "frame of kind", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	check("wrong version", "wire version 7", "wire version 7", hello(7, 9))
	check("not HELLO first", "want HELLO", "want HELLO", wire.AppendFrame(nil, wire.KindBye, 0, 1, make([]byte, 24)))
	check("wrong magic", "magic", "magic", wire.AppendFrame(nil, wire.KindHello, 0, 0, make([]byte, 24)))
	huge := wire.AppendFrame(nil, wire.KindKernels, 0, 1, nil)
	binary.LittleEndian.PutUint32(huge, 1<<32-1)
	check("4 GiB", "body of 4294967295 bytes", "body of 4294967295 bytes", hello(wire.Version, 5), huge)
	check("bad frame", "frame 1: bad frame", "frame 1: bad frame", hello(wire.Version, 6),
		wire.AppendFrame(nil, wire.KindInfo, 0, 1, []byte("bad")))
	assert.EqualValues(t, 5, b.number("kernhes_protocol_errors"))

	cut := b.dial()
	cut.write(hello(wire.Version, 8)[:20])
	require.NoError(t, cut.Close())

	for _, c := range silent {
		c.closed()
	}
	require.Eventually(t, func() bool { return b.number("kernhes_connections_refused") == 201 }, waitFor, tick,
		"200 silent ones and a wrong version")
	good.word(1, "step a")
	good.bye(2)
	good.ack(2)
}

func TestLimits(t *testing.T) {
	b := newBench(t, func(c *Config) { c.MaxSessions, c.MaxConnections = 1, 2 })
	first, _, _ := b.connect(1)
	c := b.dial()
	c.write(hello(wire.Version, 2))
	assert.Contains(t, c.closed(), "max_sessions")
	require.Eventually(t, func() bool { return b.number("kernhes_connections") == 1 }, waitFor, tick)
	b.dial()
	require.Eventually(t, func() bool { return b.number("kernhes_connections") == 2 }, waitFor, tick)
	b.dial().closed()
	first.bye(1)
	first.ack(1)
}

func TestUsersThatAreNotAllowedAreNotHeard(t *testing.T) {
	b := newBench(t, func(c *Config) { c.AllowedUIDs = []uint32{uint32(os.Getuid()) + 1} })
	b.dial().closed()
	require.Eventually(t, func() bool { return b.number("kernhes_connections_refused") == 1 }, waitFor, tick)
	assert.Zero(t, b.number("kernhes_connections_accepted"))
}

func TestTwoEnginesOfOneNameStayApart(t *testing.T) {
	b := newBench(t, nil)
	one, _, _ := b.connect(1)
	two, _, _ := b.connect(2)
	for range 3 {
		b.sink.Reset()
		b.r.export(t.Context())
		m := b.sink.AllMetrics()[0]
		seen := map[string]bool{}
		for i := range m.ResourceMetrics().Len() {
			id, _ := m.ResourceMetrics().At(i).Resource().Attributes().Get(metadata.ResourceServiceInstanceId)
			seen[id.Str()] = true
		}
		assert.Len(t, seen, 3, "two engines and the receiver: %v", seen)
		assert.True(t, seen[fmt.Sprintf("r1/0/%d", os.Getpid())])
		assert.Equal(t, []any{int64(2)}, metricstest.Points(m)["kern_rank_conflicts"][""])
	}
	one.bye(1)
	one.ack(1)
	two.bye(1)
	two.ack(1)
}

// A moody consumer refuses as long as fail is set.
type moody struct {
	consumertest.MetricsSink
	fail atomic.Pointer[error]
}

func (m *moody) ConsumeMetrics(ctx context.Context, md pmetric.Metrics) error {
	if err := m.fail.Load(); err != nil {
		return *err
	}
	return m.MetricsSink.ConsumeMetrics(ctx, md)
}

var _ consumer.Metrics = (*moody)(nil)

func TestLastNumbersWaitForTheConsumer(t *testing.T) {
	next := &moody{}
	b := newBenchOn(t, componenttest.NewNopHost(), fakes, nil, func(r *kernhesReceiver) { r.metrics = next })
	check := func(session uint64, err error, want bool) {
		t.Helper()
		next.Reset()
		next.fail.Store(&err)
		c, _, _ := b.connect(session)
		c.word(1, "step a")
		c.bye(2)
		c.ack(2)
		next.fail.Store(nil)
		b.r.export(t.Context())
		_, got := metricstest.Points(next.AllMetrics()...)["kern_kernels_total"]
		assert.Equal(t, want, got)
	}
	check(1, errors.New("try again"), true)
	check(2, consumererror.NewPermanent(errors.New("never")), false)
}

func TestStatusOfAReceiver(t *testing.T) {
	b := newBench(t, nil)
	one, _, _ := b.connect(1)
	two, _, _ := b.connect(2, "rank", "1", "pid", "78")
	one.word(1, "outside")
	one.ack(1)
	require.NoError(t, two.Close())
	require.Eventually(t, func() bool { return b.number("kernhes_connections") == 1 }, waitFor, tick)
	s := b.r.status(time.Now())
	require.Len(t, s.Sessions, 2)
	if !s.Sessions[0].Connected { // they differ in nothing but their number
		slices.Reverse(s.Sessions)
	}
	assert.True(t, s.Sessions[0].Connected)
	assert.EqualValues(t, 1, s.Sessions[0].Ranks[0].Outside)
	assert.False(t, s.Sessions[1].Connected)
	assert.Equal(t, strconv.Itoa(os.Getpid()), s.Sessions[1].PID, "whatever the engine says")
	one.bye(2)
	one.ack(2)
	s = b.r.status(time.Now())
	assert.Len(t, s.Sessions, 1)
	assert.EqualValues(t, 1, s.Bye)
}
