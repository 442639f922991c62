package session

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/enginetest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
)

// A slow account is at a frame until it may go on; between the frame's two parts it lets others look.
type slow struct {
	*enginetest.Fake
	at, goOn chan struct{}
	between  func()
}

func (e *slow) Pause(between func()) { e.between = between }

func (e *slow) Frame(f wire.Frame) error {
	e.at <- struct{}{}
	<-e.goOn
	e.between()
	e.at <- struct{}{}
	<-e.goOn
	return e.Fake.Frame(f)
}

// TestAFrameKeepsNobodyWaiting: who asks how the sessions stand, tells an engine something, or ends, waits for no frame.
func TestAFrameKeepsNobodyWaiting(t *testing.T) {
	b := newSessionBench(t, "")
	e := &slow{at: make(chan struct{}), goOn: make(chan struct{})}
	begin := b.sessions.set.NewEngine
	b.sessions.set.NewEngine = func(h wire.Hello) Account {
		if h.Session != 1 {
			return begin(h)
		}
		e.Fake = enginetest.New(h)
		return e
	}
	near, far := net.Pipe()
	defer far.Close()
	stuck, err := b.sessions.Attach(t.Context(), near, wire.Hello{Session: 1, Info: map[string]string{"run": "stuck"}}, share.Peer{})
	require.NoError(t, err)
	other := b.attach(2)
	require.NoError(t, b.word(other, 1, "outside"))
	done := make(chan error)
	go func() { done <- b.word(stuck, 1, "outside") }()
	<-e.at

	live := b.sessions.Live(time.Now()) // it hangs if it waits
	require.Len(t, live, 2)
	assert.Equal(t, "stuck", live[0].Reports[0].Info["run"])
	assert.EqualValues(t, 1, live[1].Reports[0].Kernels, "the other's figures are of now")
	assert.Len(t, b.sessions.Standings(), 2)
	go func() { _, _ = far.Read(make([]byte, 1)) }()
	assert.True(t, b.sessions.Command(1, []byte{1}))
	b.sessions.Sweep(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = b.sessions.Attach(ctx, near, wire.Hello{Session: 1}, share.Peer{})
	require.ErrorIs(t, err, context.DeadlineExceeded, "a new connection heeds its context")

	s := b.sessions.live(1)
	before := s.latest.Load()
	s.asked.Store(true)
	e.goOn <- struct{}{}
	<-e.at
	assert.NotSame(t, before, s.latest.Load(), "it published between the parts")
	e.goOn <- struct{}{}
	require.NoError(t, <-done)
}
