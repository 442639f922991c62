package flood

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestARefusalIsSaidOnceAMinute(t *testing.T) {
	var r Guard
	now := time.Unix(1_800_000_000, 0)
	token, other := Kind{"10.0.0.7", "token"}, Kind{"10.0.0.8", "token"}
	check := func(of Kind, more int, said bool) {
		t.Helper()
		gotMore, got := r.say(of, 1, now)
		assert.Equal(t, said, got)
		assert.Equal(t, more, gotMore)
	}
	check(token, 0, true)
	for range 59 {
		now = now.Add(time.Second)
		check(token, 0, false)
	}
	check(other, 0, true)
	check(Kind{"10.0.0.7", "tls"}, 0, true)
	now = now.Add(time.Second)
	check(token, 59, true)
	check(token, 0, false)
	check(other, 0, false)
	now = now.Add(time.Hour)
	check(token, 1, true)
}

func TestRefusalsAreBounded(t *testing.T) {
	var r Guard
	now := time.Unix(1_800_000_000, 0)
	said := 0
	for i := range 10_000 {
		if _, ok := r.say(Kind{fmt.Sprint("host ", i), "token"}, 1, now); ok {
			said++
		}
	}
	assert.Equal(t, maxKinds+1, said)
	assert.Len(t, r.said, maxKinds+1)
	more, ok := r.say(Kind{"host 0", "token"}, 1, now.Add(interval))
	assert.Zero(t, more)
	assert.True(t, ok, "it is still told apart")
	more, ok = r.say(Kind{"a new one", "token"}, 1, now.Add(interval))
	assert.Zero(t, more)
	assert.True(t, ok, "the quiet ones gave way")
	assert.Len(t, r.said, 2)
}

// TestLinesThatAreNoWarningsComeInBursts: each rank of a host that starts is logged, a flood is not.
func TestLinesThatAreNoWarningsComeInBursts(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	var g Guard
	for range 1000 {
		g.Info(zap.New(core), Kind{"user 7", "connected"}, "engine connected")
		g.Error(zap.New(core), Kind{"user 7", "refused"}, "refused")
	}
	assert.Equal(t, burst, logs.FilterMessage("engine connected").Len())
	assert.Equal(t, 1, logs.FilterMessage("refused").Len())
}
