package control

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/enginetest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
)

// A yielding process is one with what its shim sends.
type yielding struct {
	*shimscript.Script
	e *engine.Process
}

// TestYieldFindsTheStartsOfAName: two processes bring one rank of one name, a third is not settled.
func TestYieldFindsTheStartsOfAName(t *testing.T) {
	starts := identity.NewStarts()
	set := enginetest.Settings()
	set.Starts = starts
	begin := engine.NewEngines(set).Begin
	next := uint64(0x1000)
	process := func(pairs ...string) yielding {
		next++
		info := map[string]string{"host": "gpu07", "boot_id": "b", "leader.pid": "42", "leader.start": "9"}
		for i := 0; i < len(pairs); i += 2 {
			info[pairs[i]] = pairs[i+1]
		}
		starts.Arrive(next, info)
		e := begin(wire.Hello{Session: next, Info: info})
		return yielding{&shimscript.Script{Out: func(f wire.Frame) { require.NoError(t, e.Frame(f)) }}, e}
	}
	first := process("run", "bar", "rank", "0", "pid", "1")
	second := process("run", "bar", "rank", "0", "pid", "2")
	first.Step(1, "step:decode seq=1", 0)
	second.Step(1, "step:decode seq=1", 0)
	early := process("run", "bar", "rank", "0", "pid", "3")
	early.Launch(1, 1)
	early.OnDevice(0, 1, 2, 3)
	other := process("run", "bar2", "rank", "0", "pid", "4")
	other.Step(1, "step:decode seq=1", 0)
	silent := process("run", "bar", "rank", "0", "pid", "5")
	later := second.e.Reports()[0].Info["run"]
	require.NotEqual(t, "bar", later)

	zero, one := int64(0), int64(1)
	for _, c := range []struct {
		ask  yieldAsk
		want []string
	}{
		{yieldAsk{}, []string{"1", "2", "3", "4", "5"}},
		{yieldAsk{run: "bar"}, []string{"1", "2", "3", "5"}},
		{yieldAsk{run: "bar", rank: &zero}, []string{"1", "2"}},
		{yieldAsk{run: "bar", rank: &one}, nil},
		{yieldAsk{run: later}, []string{"2"}},
		{yieldAsk{run: "bar2"}, []string{"4"}},
		{yieldAsk{run: "ba"}, nil},
	} {
		var got []string
		for _, s := range []yielding{first, second, early, other, silent} {
			if standing := (fleet.Standing{Connected: true, Standing: s.e.Standing()}); c.ask.fits(&standing) {
				got = append(got, standing.PID)
			}
		}
		assert.Equal(t, c.want, got, "%+v", c.ask)
	}
}

// countedEngines are engines of which one takes a while to let go of CUPTI.
type countedEngines struct {
	all, one, sent int
}

func (c *countedEngines) Standings() []fleet.Standing {
	c.all++
	return []fleet.Standing{{Session: 1, Connected: true, Standing: engine.Standing{Subscribed: true}}, {Session: 2}}
}

func (c *countedEngines) Standing(session uint64) (fleet.Standing, bool) {
	c.one++
	return fleet.Standing{Session: session, Standing: engine.Standing{Subscribed: c.one < 3}}, session == 1
}

func (c *countedEngines) Command(session uint64, _ []byte) bool {
	c.sent++
	return session == 1
}

// TestYieldLooksOnlyAtThoseItAsked while it waits: how all engines stand is asked once.
func TestYieldLooksOnlyAtThoseItAsked(t *testing.T) {
	c := &countedEngines{}
	answers, err := yield(t.Context(), c, yieldAsk{time: time.Minute})
	require.NoError(t, err)
	require.Len(t, answers, 1)
	require.False(t, answers[0].Subscribed)
	require.Equal(t, countedEngines{all: 1, one: 3, sent: 1}, *c)
}

// stuckEngines are engines none of which takes a command before all have been asked.
type stuckEngines struct {
	countedEngines
	asked sync.WaitGroup
}

func (e *stuckEngines) Standings() (all []fleet.Standing) {
	for i := range uint64(8) {
		all = append(all, fleet.Standing{Session: i + 1, Connected: true})
	}
	return all
}

func (e *stuckEngines) Command(session uint64, _ []byte) bool {
	e.asked.Done()
	e.asked.Wait()
	return session == 1
}

// TestYieldAsksAllAtOnce: engines that do not read take no time from the others.
func TestYieldAsksAllAtOnce(t *testing.T) {
	e := &stuckEngines{}
	e.asked.Add(8)
	told := tell(e, nil, func(*fleet.Standing) bool { return true })
	require.Equal(t, []uint64{1}, told)
}
