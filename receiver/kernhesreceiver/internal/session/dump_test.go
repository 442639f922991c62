package session

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/enginetest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/jsonl/jsonltest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
)

func TestNothingIsAcknowledgedThatCannotBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	b := newSessionBench(t, path)
	f := b.attach(1)
	require.NoError(t, b.word(f, 1, "outside"))
	require.Equal(t, Ack{Frame: 1, Due: true}, f.Passed(t.Context()))

	good := b.sessions.journal.dump.Out
	broken, err := os.Open(path) // for reading only
	require.NoError(t, err)
	b.sessions.journal.dump.Out = broken
	require.NoError(t, b.word(f, 2, "step a"))
	require.Equal(t, Ack{}, f.Passed(t.Context()))
	require.Equal(t, 1, b.logs.FilterMessage("nothing is acknowledged until this works again").Len())
	b.sessions.journal.dump.Out = good
	require.NoError(t, broken.Close())

	require.NoError(t, b.word(f, 3, "outside"))
	require.Equal(t, Ack{Frame: 3, Due: true}, f.Passed(t.Context()))
	require.Equal(t, 1, b.logs.FilterMessage("all is delivered again").Len())
	steps, outside := jsonltest.Tally(jsonltest.Read(t, path))
	assert.Equal(t, []string{"a"}, steps)
	assert.EqualValues(t, 2, outside)
}

// TestLinesThatAreGivenUpAreCounted: 65,536 lines wait for a dump that cannot be written; of more, the oldest go.
func TestLinesThatAreGivenUpAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	d, err := openJournal(path)
	require.NoError(t, err)
	disk := &jsonltest.FullDisk{File: d.dump.Out.(*os.File), Full: true}
	d.dump.Out = disk
	s := newSession(1, enginetest.New(wire.Hello{}), remembered{})
	const waiting, over = 65_536, 3
	for id := range waiting + over {
		s.lines = append(s.lines, engine.OutboundStep{
			StepTotals: engine.StepTotals{Kind: "step", Session: "01", ID: strconv.Itoa(id)}, Hold: engine.NewHold(nil),
		})
	}
	lost, err := s.deliver(d, nil)
	require.Error(t, err)
	require.Equal(t, over, lost)
	lost, err = s.deliver(d, nil)
	require.Error(t, err)
	require.Zero(t, lost, "each is counted once")
	require.Len(t, s.lines, waiting)

	disk.Full = false
	s.lines = s.lines[:2]
	lost, err = s.deliver(d, nil)
	require.NoError(t, err)
	require.Zero(t, lost)
	require.NoError(t, d.close())
	steps, _ := jsonltest.Tally(jsonltest.Read(t, path))
	require.Equal(t, []string{"3", "4"}, steps, "the oldest were given up")
}

// TestLinesOfAnEndedSessionThatAreGivenUpAreCounted: a session ends whether or not its lines can be written.
func TestLinesOfAnEndedSessionThatAreGivenUpAreCounted(t *testing.T) {
	b := newSessionBench(t, filepath.Join(t.TempDir(), "steps.jsonl"))
	f := b.attach(1)
	b.sessions.journal.dump.Out = &jsonltest.FullDisk{File: b.sessions.journal.dump.Out.(*os.File), Full: true}
	require.NoError(t, b.word(f, 1, "step a"))
	require.NoError(t, b.word(f, 2, "step b"))
	_, err := f.Take(t.Context(), wire.Frame{Kind: wire.KindBye, Number: 3})
	require.ErrorIs(t, err, syscall.ENOSPC)
	m, err := b.telemetry.GetMetric("otelcol_kernhes_dump_errors")
	require.NoError(t, err)
	require.EqualValues(t, 2, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
	require.Empty(t, b.sessions.Live(time.Now()))
}

// Of more sessions than are remembered, the dump's last ones are.
func TestDumpRemembersItsLastSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "steps.jsonl")
	var text strings.Builder
	const sessions = maxPast + 10
	for i := 1; i <= sessions; i++ {
		text.WriteString(`{"kind":"ack","session":"` + engine.SessionName(uint64(i)) + `","frame":7}` + "\n")
	}
	text.WriteString(`{"kind":"session","session":"` + engine.SessionName(1) + `","ended":"bye"}` + "\n") // the first one speaks last
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	past := newSessionBench(t, path).sessions.past
	require.Len(t, past, maxPast)
	require.Equal(t, uint64(7), past[1].frame)
	for i := 2; i <= 11; i++ {
		require.NotContains(t, past, uint64(i))
	}
	require.Contains(t, past, uint64(12))
	require.Contains(t, past, uint64(sessions))
}

// A sessionBench is sessions without a server, of fake engines.
type sessionBench struct {
	t         *testing.T
	sessions  *Sessions
	telemetry *componenttest.Telemetry
	logs      *observer.ObservedLogs
}

func newSessionBench(t *testing.T, path string) *sessionBench {
	t.Helper()
	b := &sessionBench{t: t, telemetry: componenttest.NewTelemetry()}
	instruments, err := metadata.NewTelemetry(b.telemetry.NewTelemetrySettings())
	require.NoError(t, err)
	core, logs := observer.New(zap.DebugLevel)
	b.logs = logs
	b.sessions, err = Open(Settings{
		Log: zap.New(core), Telemetry: instruments, Limit: 10, ReconnectTimeout: time.Hour, Starts: identity.NewStarts(), Dump: path,
		NewEngine: func(h wire.Hello) Account { return enginetest.New(h) },
		Ended:     func(context.Context, uint64, []engine.Report, bool) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.sessions.Close())
		require.NoError(t, b.telemetry.Shutdown(context.WithoutCancel(t.Context())))
	})
	return b
}

// attach connects an engine.
func (b *sessionBench) attach(session uint64) *Feed {
	b.t.Helper()
	near, far := net.Pipe()
	b.t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	f, err := b.sessions.Attach(b.t.Context(), near, wire.Hello{Session: session, Info: map[string]string{}}, share.Peer{})
	require.NoError(b.t, err)
	return f
}

// word gives a session what a fake engine understands.
func (b *sessionBench) word(f *Feed, number uint64, word string) error {
	_, err := f.Take(b.t.Context(), wire.Frame{Kind: wire.KindInfo, Number: number, Body: []byte(word)})
	return err
}
