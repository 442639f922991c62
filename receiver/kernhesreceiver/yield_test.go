package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
)

// A yielding process is one with what its shim sends.
type yielding struct {
	*shimscript.Script
	e account
}

// TestYieldFindsTheStartsOfAName: two processes bring one rank of one name, a third is not settled.
func TestYieldFindsTheStartsOfAName(t *testing.T) {
	starts := identity.NewStarts()
	begin := newEngines(zap.NewNop(), createDefaultConfig().(*Config), false, nil, &rules.Files{}, starts)
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
			status := newSessionStatus(time.Now(), &liveSession{connected: true, reports: s.e.Reports()})
			if c.ask.fits(&status) {
				got = append(got, status.PID)
			}
		}
		assert.Equal(t, c.want, got, "%+v", c.ask)
	}
}

func TestYield(t *testing.T) {
	b := newBench(t, nil)
	free, _, _ := b.connect(1, "run", "a", "mode", "off", "mode_reason", "yielded", "subscribed", "0")
	has, _, _ := b.connect(2, "run", "b", "mode", "hes", "subscribed", "1")
	control := func(c *client) (command uint32, argument uint64) {
		t.Helper()
		body := c.read(wire.KindControl)
		require.Len(t, body, 40)
		return le.Uint32(body), le.Uint64(body[8:])
	}
	check := func(c *client, wantCommand uint32, wantArgument uint64) {
		t.Helper()
		command, argument := control(c)
		assert.Equal(t, wantCommand, command)
		assert.Equal(t, wantArgument, argument)
	}

	status, body := ask(t, b.r.control, "POST", "/yield?run=a&rank=0&seconds=7")
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, map[string]any{"seconds": 7.0, "engines": []any{map[string]any{
		"session": engine.SessionName(1), "run": "a", "rank": 0.0, "pid": "77", "mode": "off", "mode_reason": "yielded", "subscribed": false}}}, body)
	check(free, wire.CommandYield, 7e9)

	status, body = ask(t, b.r.control, "DELETE", "/yield?run=b")
	assert.Equal(t, http.StatusOK, status)
	assert.Len(t, body["engines"], 1)
	check(has, wire.CommandResume, 0)

	status, _ = ask(t, b.r.control, "POST", "/yield?run=a") // the other was not asked for anything meanwhile
	assert.Equal(t, http.StatusOK, status)
	check(free, wire.CommandYield, 60e9)

	for query, want := range map[string]int{
		"run=c": http.StatusNotFound, "rank=9": http.StatusNotFound, "seconds=0": http.StatusBadRequest, "seconds=86401": http.StatusBadRequest,
		"seconds=x": http.StatusBadRequest, "rank=x": http.StatusBadRequest, "run=a&run=b": http.StatusBadRequest, "who=a": http.StatusBadRequest,
	} {
		status, body = ask(t, b.r.control, "POST", "/yield?"+query)
		assert.Equal(t, want, status, query)
		assert.NotEmpty(t, body["error"], query)
	}
	for range 20 { // of several faults, the first by name
		_, body = ask(t, b.r.control, "POST", "/yield?seconds=0&rank=x&other=1")
		assert.Contains(t, body["error"], `"other"`)
	}
	status, _ = ask(t, b.r.control, "DELETE", "/yield?seconds=3")
	assert.Equal(t, http.StatusBadRequest, status)
}
