package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARefusalIsSaidOnceAMinute(t *testing.T) {
	var r refusals
	now := time.Unix(1_800_000_000, 0)
	token, other := refusal{"10.0.0.7", "token"}, refusal{"10.0.0.8", "token"}
	check := func(of refusal, more int, said bool) {
		t.Helper()
		gotMore, got := r.say(of, now)
		assert.Equal(t, said, got)
		assert.Equal(t, more, gotMore)
	}
	check(token, 0, true)
	for range 59 {
		now = now.Add(time.Second)
		check(token, 0, false)
	}
	check(other, 0, true)
	check(refusal{"10.0.0.7", "tls"}, 0, true)
	now = now.Add(time.Second)
	check(token, 59, true)
	check(token, 0, false)
	check(other, 0, false)
	now = now.Add(time.Hour)
	check(token, 1, true)
}

func TestRefusalsAreBounded(t *testing.T) {
	var r refusals
	now := time.Unix(1_800_000_000, 0)
	said := 0
	for i := range 10_000 {
		if _, ok := r.say(refusal{fmt.Sprint("host ", i), "token"}, now); ok {
			said++
		}
	}
	assert.Equal(t, maxRefusals+1, said)
	assert.Len(t, r.said, maxRefusals+1)
	more, ok := r.say(refusal{"host 0", "token"}, now.Add(refusalInterval))
	assert.Zero(t, more)
	assert.True(t, ok, "it is still told apart")
	more, ok = r.say(refusal{"a new one", "token"}, now.Add(refusalInterval))
	assert.Zero(t, more)
	assert.True(t, ok, "the quiet ones gave way")
	assert.Len(t, r.said, 2)
}

func TestPeersHaveNames(t *testing.T) {
	unix := accepted(t, "unix", filepath.Join(t.TempDir(), "s"))
	assert.Equal(t, fmt.Sprintf("process %d of user %d", os.Getpid(), os.Getuid()), peerName(unix))
	assert.Equal(t, "127.0.0.1", peerName(accepted(t, "tcp", "127.0.0.1:0")))
	require.NoError(t, unix.Close())
	assert.NotPanics(t, func() { peerName(unix) })
	assert.NotPanics(t, func() { a, _ := net.Pipe(); peerName(a) })
}
