package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/logs"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
)

// attachAs connects an engine of a peer.
func (b *sessionBench) attachAs(session uint64, peer share.Peer) (*Feed, error) {
	b.t.Helper()
	near, far := net.Pipe()
	b.t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return b.sessions.Attach(b.t.Context(), near, wire.Hello{Session: session, Info: map[string]string{}}, peer)
}

// process is a process of a user on this host.
func process(user, pid int) share.Peer {
	return share.Peer{Group: fmt.Sprint("user ", user), Process: fmt.Sprintf("process %d of user %d", pid, user), Vouched: true}
}

// TestASessionIsOfOneProcess: who knows its number can neither take it over nor say BYE for it.
func TestASessionIsOfOneProcess(t *testing.T) {
	b := newSessionBench(t, "")
	f, err := b.attachAs(1, process(7, 70))
	require.NoError(t, err)
	for _, foreign := range []share.Peer{process(7, 71), process(8, 70), {Group: "10.0.0.7"}} {
		_, err := b.attachAs(1, foreign)
		require.ErrorIs(t, err, ErrForeign)
	}
	require.NoError(t, b.word(f, 1, "outside"), "its connection was not touched")
	f.Leave()
	_, err = b.attachAs(1, process(7, 71))
	require.ErrorIs(t, err, ErrForeign, "nor while it waits")
	again, err := b.attachAs(1, process(7, 70))
	require.NoError(t, err)
	assert.EqualValues(t, 1, again.Welcome().Received)
}

// TestMostSessionsGiveWay: one process has all sessions, and another gets one all the same.
func TestMostSessionsGiveWay(t *testing.T) {
	b := newSessionBench(t, "")
	for i := range uint64(10) {
		f, err := b.attachAs(100+i, process(7, 70))
		require.NoError(t, err)
		f.Leave()
	}
	_, err := b.attachAs(110, process(7, 70))
	require.ErrorIs(t, err, ErrTooMany)
	_, err = b.attachAs(1, process(8, 80))
	require.NoError(t, err)
	assert.Nil(t, b.sessions.live(109), "the newest of those that have most")
	assert.Len(t, b.sessions.all(), 10)
	_, err = b.attachAs(111, process(7, 71))
	require.NoError(t, err, "another process of the same user has none")
	assert.NotNil(t, b.sessions.live(1))
}

func TestNewSessionsAMinuteAreBounded(t *testing.T) {
	var r rate
	now := time.Unix(1_800_000_000, 0)
	check := func(by string, want bool) {
		t.Helper()
		assert.Equal(t, want, r.begin(by, 3, now))
	}
	for range 3 {
		check("user 7", true)
	}
	check("user 7", false)
	check("user 8", true)
	now = now.Add(time.Minute)
	check("user 7", true)
	for i := range 5000 {
		r.begin(fmt.Sprint("host ", i), 3, now)
	}
	assert.LessOrEqual(t, len(r.begun), maxRates+1)

	b := newSessionBench(t, "")
	b.sessions.set.PerMinute = 1
	f, err := b.attachAs(1, process(7, 70))
	require.NoError(t, err)
	f.Leave()
	_, err = b.attachAs(2, process(7, 71))
	require.ErrorIs(t, err, ErrTooOften)
	_, err = b.attachAs(1, process(7, 70))
	require.NoError(t, err, "it only reconnects")
}

// TestSweepingHeedsItsContext: many sessions are gone at once while no pipeline takes their last chunks. Each is offered for five
// seconds; all of them together take no longer, and an end of the context ends it.
func TestSweepingHeedsItsContext(t *testing.T) {
	b := newSessionBench(t, "")
	var offered atomic.Int64
	stuck, err := consumer.NewLogs(func(context.Context, plog.Logs) error { offered.Add(1); return errors.New("try again") })
	require.NoError(t, err)
	settings := receivertest.NewNopSettings(metadata.Type)
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{ReceiverID: settings.ID, ReceiverCreateSettings: settings})
	require.NoError(t, err)
	b.sessions.set.Logs = logs.New(b.sessions.set.Log, stuck, obs, b.sessions.set.Telemetry)
	b.sessions.set.ReconnectTimeout, b.sessions.set.RetryDelay = 0, time.Hour
	for i := range uint64(10) {
		f, err := b.attachAs(i, process(7, 70))
		require.NoError(t, err)
		require.NoError(t, b.word(f, 1, "chunk 10"))
		f.Leave()
	}
	before := offered.Load()
	ctx, cancel := context.WithCancel(t.Context())
	swept := make(chan struct{})
	go func() { b.sessions.Sweep(ctx); close(swept) }()
	require.Eventually(t, func() bool { return offered.Load() >= before+10 }, 30*time.Second, time.Millisecond, "none waits for another")
	cancel()
	select {
	case <-swept:
	case <-time.After(30 * time.Second):
		t.Fatal("sweeping goes on without its context")
	}
}
