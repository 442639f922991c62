package kernhesreceiver

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
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

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/enginetest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/session"
)

var le = binary.LittleEndian

// A bench is a receiver with a fake engine behind it.
type bench struct {
	t    *testing.T
	r    *kernhesReceiver
	cfg  *Config
	sink *consumertest.MetricsSink
	tel  *componenttest.Telemetry
	logs *observer.ObservedLogs

	mu      sync.Mutex
	engines map[uint64]*enginetest.Fake // the last of each session
}

// newBench starts a receiver that exports only at the end of sessions unless change says otherwise.
func newBench(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	return newBenchOn(t, componenttest.NewNopHost(), fakes, change)
}

// fakes begins fake engines, and keeps them.
func fakes(b *bench) func(wire.Hello) session.Account {
	b.engines = map[uint64]*enginetest.Fake{}
	return func(h wire.Hello) session.Account {
		e := enginetest.New(h)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.engines[h.Session] = e
		return e
	}
}

// engine is the last fake engine of a session.
func (b *bench) engine(session uint64) *enginetest.Fake {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Contains(b.t, b.engines, public(session))
	return b.engines[public(session)]
}

// public is what a session that a client names is called in the receiver.
var public = wire.Public

// publicName is what the dump calls a session of which the simulator tells.
func publicName(t *testing.T, session string) string {
	t.Helper()
	id, err := strconv.ParseUint(session, 16, 64)
	require.NoError(t, err)
	return engine.SessionName(public(id))
}

// newBenchOn starts one on a host, with an engine of choice behind it; nil: the real one.
func newBenchOn(t *testing.T, host component.Host, newEngine func(*bench) func(wire.Hello) session.Account, change func(*Config), before ...func(*kernhesReceiver)) *bench {
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
	var begin func(wire.Hello) session.Account
	if newEngine != nil {
		begin = newEngine(b)
	}
	r, err := newReceiver(set, b.cfg, begin)
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
	c, err := net.Dial(b.r.server.Addr().Network(), b.r.server.Addr().String())
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

// get asks the control endpoint, and returns the status and the body.
func (b *bench) get(method, path string, header http.Header) (status int, body []byte, answer http.Header) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.r.control.Addr().String()+path, nil)
	require.NoError(b.t, err)
	maps.Copy(r.Header, header)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	require.NoError(b.t, err)
	defer func() { require.NoError(b.t, response.Body.Close()) }()
	body, err = io.ReadAll(response.Body)
	require.NoError(b.t, err)
	return response.StatusCode, body, response.Header
}

// ask asks the control endpoint, and returns the status and the answer.
func (b *bench) ask(method, path string) (status int, answer map[string]any) {
	b.t.Helper()
	status, body, _ := b.get(method, path, nil)
	require.NoError(b.t, json.Unmarshal(body, &answer), "%s", body)
	return status, answer
}
