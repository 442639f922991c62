//go:build chain

package chain_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
)

// An engineStatus is of GET /status what these tests look at.
type engineStatus struct {
	Run        string
	Mode       string
	Reason     string `json:"mode_reason"`
	Subscribed bool
	Ranks      []struct {
		Kernels     uint64
		CommKernels uint64   `json:"comm_kernels"`
		StepAge     *float64 `json:"last_step_age"`
		Coverage    struct {
			Classified map[string]float64 `json:"classified_seconds"`
			InStep     float64            `json:"in_step_fraction"`
			Labelled   float64            `json:"labelled_fraction"`
		}
	}
}

// A collectorStatus is of GET /status what these tests look at.
type collectorStatus struct {
	Problems []string
	Sessions []engineStatus
}

func (c *collector) status() (s collectorStatus) {
	c.t.Helper()
	answer, err := http.Get(c.control + "/status?format=json")
	require.NoError(c.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, json.Unmarshal(body, &s), "%s", body)
	return s
}

func (c *collector) engine(run string) engineStatus {
	c.t.Helper()
	for _, e := range c.status().Sessions {
		if e.Run == run {
			return e
		}
	}
	return engineStatus{}
}

// hasStep waits until a step of a play is final.
func (c *collector) hasStep(p *play) {
	c.t.Helper()
	c.eventually("a step", func() bool {
		e := c.engine(p.run)
		return len(e.Ranks) > 0 && e.Ranks[0].StepAge != nil
	})
}

// kernhes runs a subcommand that asks this collector.
func (c *collector) kernhes(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary("kernhes"), append([]string{command, "--endpoint", c.control}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// yielded fails unless what was not traced of a recording shows as that: as unknown time, and as steps that are incomplete
// or not there; and unless what was, before and after, is as it was.
func yielded(t *testing.T, name string, r *rank, took tally) {
	t.Helper()
	want := asRecorded()[name].Devices[0]
	untraced := want.Kernels - r.Kernels + want.Copies["memset"] - r.Copies["memset"]
	assert.Positive(t, untraced, "it was traced throughout")
	assert.EqualValues(t, took["untraced"], untraced)
	assert.EqualValues(t, took["delivered_kernels"], r.Kernels)
	assert.Zero(t, r.n.sum("kern_trace_dropped_records_total"))
	assert.Zero(t, took["unfinished"])
	assert.Positive(t, r.UnknownNS)
	assert.Equal(t, want.StepRanges, r.StepRanges, "ranges are heard throughout")
	assert.Less(t, r.StepsComplete+incomplete(r), want.StepsComplete, "steps without a launch that was seen are none")
	assert.Equal(t, r.StepsIncomplete["not_traced"]+r.StepsIncomplete["missing_records"], incomplete(r))
	complete := completeAsRecorded(t, name, r)
	assert.Equal(t, complete, r.StepsComplete)
	whole := map[string]bool{}
	for _, s := range r.steps {
		whole[s.Text] = s.Complete
	}
	rows := rowsOf(want)
	assert.True(t, whole[rows[0].Text], "the first step was traced")
	assert.True(t, whole[rows[len(rows)-1].Text], "the last step was traced")
}

// An engine lets go of CUPTI for a time; another client, which waited for it, has it meanwhile; and the engine has it back.
func TestYield(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	const name = "solo.rank0"
	for _, test := range []struct{ version, hes, mode string }{
		{"12080", "refused", "software"},
		{"130001", "accepted", "hes"}, // cannot be turned on after the first context, and need not be
		{"130500", "accepted", "hes"},
		{"130500", "refused", "software"},
	} {
		t.Run(test.version+" "+test.mode, func(t *testing.T) {
			t.Parallel()
			p := c.begin(t, "KERNHES_HES=on", "KERNHES_MOCK_HES="+test.hes, "KERNHES_MOCK_FAULT=guest=1000", "KERNHES_FLUSH_MS=20",
				"--speed", "0.2", "--cupti", test.version, file(name))
			c.hasStep(p)
			said := c.kernhes(t, "yield", "--run", p.run, "--seconds", "600")
			assert.Contains(t, said, "does not have CUPTI; traces in mode off yielded")
			e := c.engine(p.run)
			assert.Equal(t, "off", e.Mode)
			assert.False(t, e.Subscribed)
			said = c.kernhes(t, "yield", "--run", p.run, "--back") // the other still has it: it is asked again
			assert.Contains(t, said, "has CUPTI; traces in mode "+test.mode)
			ranks, tallies := c.rest(t, p)
			assert.Equal(t, test.mode, ranks[0].Mode)
			assert.EqualValues(t, 1, tallies[0]["guests"])
			yielded(t, name, ranks[0], tallies[0])
		})
	}
	t.Run("while a kernel runs", func(t *testing.T) {
		t.Parallel()
		b := krec.NewBuilder()
		for i := range 20 {
			b.Push(fmt.Sprintf("step:decode seq=%d", i))
			b.Run(gemm, 7, 5_000, 200e6)
			b.Pop()
			b.Wait(205e6)
		}
		p := c.begin(t, "KERNHES_FLUSH_MS=20", "--speed", "recorded", "--rebase", "--deliver", "flush", write(t, b.Recording()))
		c.hasStep(p)
		c.kernhes(t, "yield", "--run", p.run, "--seconds", "1")
		ranks, tallies := c.rest(t, p)
		assert.Zero(t, tallies[0]["unfinished"], "cut short")
		assert.Zero(t, ranks[0].Invalid)
		assert.Positive(t, tallies[0]["untraced"])
	})
	t.Run("as the engine ends", func(t *testing.T) { // it waits no longer for what runs
		t.Parallel()
		b := krec.NewBuilder()
		for _, long := range []uint64{5_000, 600e9} {
			b.Push("step:decode")
			b.Run(gemm, 7, 5_000, long)
			b.Pop()
			b.Wait(1e6)
		}
		b.Wait(600e9)
		b.Push("never")
		b.Pop()
		p := c.begin(t, "KERNHES_LOG=1", "KERNHES_FLUSH_MS=20", "--speed", "recorded", "--rebase", "--deliver", "flush", write(t, b.Recording()))
		c.hasStep(p)
		yield, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.control+"/yield?seconds=600&run="+p.run, nil)
		require.NoError(t, err)
		go func() {
			if r, err := http.DefaultClient.Do(yield); err == nil {
				_ = r.Body.Close()
			}
		}()
		c.eventually("no tracing", func() bool { return c.engine(p.run).Mode == "off" })
		require.NoError(t, p.command.Process.Signal(syscall.SIGINT))
		ranks, tallies := c.rest(t, p)
		assert.NotContains(t, p.errors.String(), "did not finish")
		assert.EqualValues(t, 1, tallies[0]["unfinished"])
		assert.EqualValues(t, 1, ranks[0].Invalid, "what ran came before the farewell")
	})
	t.Run("by itself", func(t *testing.T) {
		t.Parallel()
		p := c.begin(t, "KERNHES_FLUSH_MS=20", "--speed", "0.2", file(name))
		c.hasStep(p)
		c.kernhes(t, "yield", "--run", p.run, "--seconds", "1")
		began := time.Now()
		c.eventually("tracing", func() bool { return c.engine(p.run).Subscribed })
		assert.Less(t, time.Since(began), 30*time.Second)
		assert.Greater(t, time.Since(began), 800*time.Millisecond, "the time counts from when it has let go")
		ranks, tallies := c.rest(t, p)
		yielded(t, name, ranks[0], tallies[0])
	})
}

// rest waits until a play of one rank has ended.
func (c *collector) rest(t *testing.T, p *play) ([]*rank, []tally) {
	t.Helper()
	tallies := p.end(0)
	ranks := c.ranks(t, p.run)
	require.Len(t, ranks, 1)
	return ranks, tallies
}
