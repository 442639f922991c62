package kernwaitsconnector

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/cause"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/ledger"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/chunklog"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
	"github.com/kernhes/kernhes/internal/sim/truth"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver"
)

var epoch = time.Unix(1_700_000_000, 0)

// packedTP2 are the bodies of the chunks of the recording of two ranks, by rank.
var packedTP2 = sync.OnceValue(func() (bodies [2][][]byte) {
	for rank := range bodies {
		r, err := krec.Read(filepath.Join("../../testdata/recordings", fmt.Sprintf("tp2.rank%d.krec.zst", rank)))
		if err != nil {
			panic(err)
		}
		of := chunktest.Ranks(r, "run", int64(rank))[0]
		p := chunk.NewPacker(of.Identity, func(s *chunk.Sealed) { bodies[rank] = append(bodies[rank], slices.Clone(s.Body)) })
		for i := range of.Steps {
			if err := p.Add(&of.Steps[i]); err != nil {
				panic(err)
			}
		}
		p.Cut()
	}
	return bodies
})

// tp2 is the recording of two ranks, rank by rank. change may be nil.
func tp2(t testing.TB, change func(rank int, s *chunk.Step)) (chunks [2][]*chunk.Chunk) {
	t.Helper()
	for rank, bodies := range packedTP2() {
		for _, body := range bodies {
			c, err := chunk.Unpack(body)
			require.NoError(t, err)
			chunks[rank] = append(chunks[rank], c)
			for i := range c.Steps {
				if s := &c.Steps[i]; change != nil && !s.Outside {
					change(rank, s)
				}
			}
		}
	}
	return chunks
}

// compared is a comparison that has taken all chunks, of the ranks by turns.
func compared(t testing.TB, change func(*Config), ranks ...[]*chunk.Chunk) *comparison {
	t.Helper()
	config := createDefaultConfig().(*Config)
	if change != nil {
		change(config)
	}
	c := newComparison(config)
	for i := 0; ; i++ {
		any := false
		for _, chunks := range ranks {
			if i < len(chunks) {
				any = true
				c.chunk(chunks[i], epoch)
			}
		}
		if !any {
			break
		}
	}
	c.pairing.Flush()
	return c
}

// only is the state of the only run.
func (c *comparison) only(t testing.TB) *runState {
	t.Helper()
	require.Len(t, c.runs, 1)
	for _, r := range c.runs {
		return r
	}
	return nil
}

// totals adds up the sums of a rank.
func totals(r *runState, rank int64) (sum ledger.Sum) {
	for _, s := range r.ledger.Sums() {
		if s.Rank == rank {
			for c := range s.Wait {
				sum.Wait[c] += s.Wait[c]
				sum.Blame[c] += s.Blame[c]
			}
			sum.Transfer += s.Transfer
			sum.Meetings += s.Meetings
			sum.Last += s.Last
		}
	}
	return sum
}

func all(by [cause.Causes]uint64) (sum uint64) {
	for _, n := range by {
		sum += n
	}
	return sum
}

// A simulation is what a simulated fleet told a real receiver, and the truth about it.
type simulation struct {
	chunks [][]*chunk.Chunk // by rank
	waits  []truth.WaitLine
	steps  []truth.StepLine
}

// simulate runs a simulated fleet into a receiver. groups is the receiver's setting.
func simulate(t testing.TB, layout program.Layout, groups map[string]int64, change func(*sim.Config), faults ...string) simulation {
	t.Helper()
	if testing.Short() {
		t.Skip("only the receiver runs in parallel here, and its own tests look for races")
	}
	sink := new(consumertest.LogsSink)
	factory := kernhesreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig().(*kernhesreceiver.Config)
	cfg.Endpoint = filepath.Join(t.TempDir(), "s")
	cfg.ControlEndpoint = ""
	cfg.Groups = groups
	r, err := factory.CreateLogs(t.Context(), receivertest.NewNopSettings(factory.Type()), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	c := sim.Defaults()
	c.Layout, c.Steps, c.Duration, c.Start, c.Endpoint = layout, 16, time.Hour, epoch, "unix://"+cfg.Endpoint
	c.Load.Prompt, c.Load.Chunk = 3000, 4096
	for _, text := range faults {
		e, err := fault.Parse(text)
		require.NoError(t, err)
		c.Schedule = append(c.Schedule, e)
	}
	if change != nil {
		change(&c)
	}
	var lines bytes.Buffer
	c.Truth = &lines
	_, err = sim.Run(t.Context(), c)
	require.NoError(t, err)
	require.NoError(t, r.Shutdown(t.Context()))
	got := simulation{chunks: make([][]*chunk.Chunk, layout.Ranks())}
	for _, logs := range sink.AllLogs() {
		for _, resource := range logs.ResourceLogs().All() {
			for _, scope := range resource.ScopeLogs().All() {
				for _, record := range scope.LogRecords().All() {
					body, err := chunklog.Body(record)
					require.NoError(t, err)
					c, err := chunk.Unpack(body)
					require.NoError(t, err)
					got.chunks[c.Rank] = append(got.chunks[c.Rank], c)
				}
			}
		}
	}
	scanner := bufio.NewScanner(&lines)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var kind struct{ Kind string }
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &kind))
		switch kind.Kind {
		case "wait":
			var l truth.WaitLine
			require.NoError(t, json.Unmarshal(scanner.Bytes(), &l))
			got.waits = append(got.waits, l)
		case "step":
			var l truth.StepLine
			require.NoError(t, json.Unmarshal(scanner.Bytes(), &l))
			got.steps = append(got.steps, l)
		}
	}
	return got
}

// wanted are the sums of each rank by the truth: of the meetings of whose group kind the ranks leave together. Of ranks that arrived
// last at the same time, the lowest is the last.
func (s *simulation) wanted(ranks int) []ledger.Sum {
	want := make([]ledger.Sum, ranks)
	for _, w := range s.waits {
		if w.Group[:2] == "pp" {
			continue
		}
		last := w.By
		for i, rank := range w.Ranks {
			if w.Wait[i] == 0 {
				last = min(last, rank)
			}
		}
		for i, rank := range w.Ranks {
			want[rank].Meetings++
			want[rank].Transfer += uint64(w.Transfer)
			want[rank].Wait[0] += uint64(w.Wait[i])
			want[last].Blame[0] += uint64(w.Wait[i])
		}
		want[last].Last++
	}
	return want
}
