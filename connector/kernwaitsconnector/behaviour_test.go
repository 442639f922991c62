package kernwaitsconnector

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/behaviour"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/ledger"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/digest"
	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// renamed has all kernels of a step compute under words that say nothing, and rank 1's clock be off and drift.
func renamed(wrong map[string]bool, off func(seq int64) int64) func(rank int, s *chunk.Step) {
	words := map[string]string{}
	shapes := map[*chunk.Shape]bool{}
	return func(rank int, s *chunk.Step) {
		if !shapes[s.Shape] {
			shapes[s.Shape] = true
			for i := range s.Shape.Positions {
				p := &s.Shape.Positions[i]
				if words[p.Name] == "" {
					words[p.Name] = fmt.Sprintf("kernel_%d", len(words))
				}
				if p.Class == chunk.Comm {
					wrong[words[p.Name]] = true
				}
				p.Name, p.Class = words[p.Name], chunk.Compute
			}
		}
		if rank == 1 {
			o := uint64(off(s.Seq))
			s.Start, s.End = s.Start+o, s.End+o
			for i := range s.Starts {
				s.Starts[i] += o
			}
		}
	}
}

// With all names unknown, behaviour finds each of the 72 all-reduces of the three decode graphs, and nothing else.
func TestMeetingsOfTheRecordingAreFoundByBehaviour(t *testing.T) {
	for name, off := range map[string]func(int64) int64{
		"clocks of the recording": func(int64) int64 { return 0 },
		"clocks 20 µs off, and drifting": func(seq int64) int64 {
			return int64(20_000 * math.Sin(float64(seq)/20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := map[string]bool{}
			chunks := tp2(t, renamed(wrong, off))
			w := behaviour.New()
			shapes := digest.NewShapes()
			for rank := range chunks {
				for _, c := range chunks[rank] {
					for i := range c.Steps {
						if s := &c.Steps[i]; !s.Outside && s.Offset == 0 && s.Last {
							w.Add(int64(rank), s, shapes.Of(s.Shape), epoch)
						}
					}
					shapes.Forget()
				}
			}
			decode := 0
			for _, s := range w.Shapes() {
				if s.Verdicts == nil {
					continue
				}
				decode++
				require.Equal(t, "decode", s.Program)
				require.Len(t, s.Compute, 72)
			}
			require.Equal(t, 3, decode)
			for _, f := range w.Findings(100_000) {
				require.True(t, wrong[f.Kernel], "%+v", f)
			}
		})
	}
}

// The same of a simulated fleet: its fused kernels of experts and its all-reduces.
func TestMeetingsOfASimulationAreFoundByBehaviour(t *testing.T) {
	s := simulate(t, program.Layouts()[1], nil, func(c *sim.Config) {
		decoding(c)
		c.Steps = 90
	})
	want := map[string]bool{} // calls
	for _, of := range s.chunks {
		for _, c := range of {
			for _, shape := range c.Shapes {
				for i := range shape.Positions {
					if p := &shape.Positions[i]; p.Class == chunk.Comm {
						want[p.Call] = true
						p.Class = chunk.Compute
					}
				}
			}
		}
	}
	run := compared(t, nil, s.chunks...).only(t)
	found := 0
	for _, shape := range run.watcher.Shapes() {
		if shape.Verdicts != nil {
			found++
			require.Len(t, shape.Compute, 2*43)
		}
	}
	require.Positive(t, found)
	for _, f := range run.watcher.Findings(1 << 20) {
		require.True(t, want[f.Call], "%+v", f)
	}
	require.NotEmpty(t, run.unseen)
}

// With override, kernels that behave as meetings are compared, from some seq on: the recording is played twice.
func TestBehaviourOverridesTheClass(t *testing.T) {
	change := renamed(map[string]bool{}, func(int64) int64 { return 0 })
	first := tp2(t, change)
	again := tp2(t, func(rank int, s *chunk.Step) {
		change(rank, s)
		s.Seq, s.Start, s.End = s.Seq+1000, s.Start+60e9, s.End+60e9
		for i := range s.Starts {
			s.Starts[i] += 60e9
		}
	})
	run := compared(t, func(c *Config) { c.Behaviour.Override = true }, append(first[0], again[0]...), append(first[1], again[1]...)).only(t)
	want := compared(t, nil, tp2(t, nil)[0], tp2(t, nil)[1]).only(t)
	decode := uint64(0)
	for _, sum := range want.ledger.Sums() {
		if sum.Program == "decode" {
			decode += sum.Meetings / 2
		}
	}
	for rank := range int64(2) {
		require.Equal(t, [pairing.Outcomes]uint64{pairing.Compared: decode}, run.ledger.Rank(rank).Calls)
	}
	for _, sum := range run.ledger.Sums() {
		i := slices.IndexFunc(want.ledger.Sums(), func(w *ledger.Sum) bool { return w.Key == sum.Key })
		require.Equal(t, all(want.ledger.Sums()[i].Wait), all(sum.Wait))
		require.Equal(t, all(want.ledger.Sums()[i].Blame), all(sum.Blame))
	}
}
