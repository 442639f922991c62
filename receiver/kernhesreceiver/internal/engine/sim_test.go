package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
	"github.com/kernhes/kernhes/internal/sim/truth"
	"github.com/kernhes/kernhes/internal/wire"
)

// A told is what a simulation told, and the truth about it.
type told struct {
	frames map[int][][]byte // by rank
	ranks  map[int]truth.RankLine
	steps  map[int][]truth.StepLine
	waits  []truth.WaitLine
}

// simulate runs a simulation into memory.
func simulate(t *testing.T, change func(*sim.Config), faults ...string) told {
	t.Helper()
	c := sim.Defaults()
	c.Steps, c.Duration, c.Start = 12, time.Hour, time.Unix(1_700_000_000, 0)
	c.Load.Prompt, c.Load.Chunk = 3000, 4096
	for _, text := range faults {
		e, err := fault.Parse(text)
		require.NoError(t, err)
		c.Schedule = append(c.Schedule, e)
	}
	change(&c)
	got := told{map[int][][]byte{}, map[int]truth.RankLine{}, map[int][]truth.StepLine{}, nil}
	c.Emit = func(rank int, _ uint64) func(uint64, []byte) {
		return func(_ uint64, frame []byte) { got.frames[rank] = append(got.frames[rank], frame) }
	}
	var lines bytes.Buffer
	c.Truth = &lines
	_, err := sim.Run(t.Context(), c)
	require.NoError(t, err)
	scanner := bufio.NewScanner(&lines)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var kind struct{ Kind string }
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &kind))
		switch kind.Kind {
		case "rank":
			var l truth.RankLine
			require.NoError(t, json.Unmarshal(scanner.Bytes(), &l))
			got.ranks[l.Rank] = l
		case "step":
			var l truth.StepLine
			require.NoError(t, json.Unmarshal(scanner.Bytes(), &l))
			got.steps[l.Rank] = append(got.steps[l.Rank], l)
		case "wait":
			var l truth.WaitLine
			require.NoError(t, json.Unmarshal(scanner.Bytes(), &l))
			got.waits = append(got.waits, l)
		}
	}
	require.Len(t, got.ranks, c.Layout.Ranks())
	return got
}

// agree holds what the account of each rank says against the truth, to the nanosecond.
func agree(t *testing.T, got told) {
	t.Helper()
	for rank, frames := range got.frames {
		p, lines, err := play(frames, nil)
		require.NoError(t, err)
		booksHold(t, p)
		require.Len(t, p.Reports(), 1)
		r, want := p.Reports()[0], got.ranks[rank]
		require.EqualValues(t, want.Kernels, r.Kernels, "kernels")
		require.EqualValues(t, want.First, r.FirstNS, "first")
		require.EqualValues(t, want.Last, r.LastNS, "last")
		require.EqualValues(t, want.Compute, r.ComputeNS, "compute")
		require.EqualValues(t, want.Comm, r.CommNS, "comm")
		require.EqualValues(t, want.Overlap, r.OverlapNS, "overlap")
		require.EqualValues(t, want.Copy, r.CopyNS, "copy")
		require.EqualValues(t, want.Idle, r.IdleNS+r.UnknownNS, "idle and unknown")
		if want.Traced == want.Steps {
			require.EqualValues(t, want.Idle, r.IdleNS, "idle")
		}
		bySeq := map[uint64]StepTotals{}
		for _, l := range lines {
			bySeq[l.Seq] = l
		}
		complete := 0
		for _, w := range got.steps[rank] {
			if !w.Traced {
				continue
			}
			complete++
			l := bySeq[w.Seq]
			require.Equal(t, w, truth.StepLine{Kind: w.Kind, Run: l.Run, Rank: int(l.Rank), Seq: l.Seq, Program: l.Program, Seqs: w.Seqs, Tokens: w.Tokens,
				KV: w.KV, Push: w.Push, Pop: w.Pop, Start: int64(l.StartNS), End: int64(l.EndNS), Wall: int64(l.WallNS), Kernels: int(l.Kernels),
				Compute: int64(l.ComputeNS), Comm: int64(l.CommNS), Overlap: int64(l.OverlapNS), Idle: int64(l.IdleNS), Foreign: int64(l.ForeignComputeNS),
				Traced: true, Complete: l.Complete})
		}
		require.EqualValues(t, complete, r.Complete, "complete steps")
	}
}

func TestSimulatedFleetsGiveTheTruth(t *testing.T) {
	for _, layout := range program.Layouts() {
		t.Run(layout.Name, func(t *testing.T) {
			agree(t, simulate(t, func(c *sim.Config) { c.Layout = layout }, "foreign_gemm:rank=1,amount=2,every=30ms"))
		})
		t.Run(layout.Name+"/disorder", func(t *testing.T) {
			agree(t, simulate(t, func(c *sim.Config) { c.Layout, c.Disorder, c.Seed = layout, 5, 7 }, "foreign_gemm:rank=1,amount=2,every=30ms"))
		})
	}
	t.Run("idle stages", func(t *testing.T) { // requests come seldom: nothing is told of before its time
		agree(t, simulate(t, func(c *sim.Config) {
			c.Layout, c.Steps, c.Load.Rate, c.Load.Output, c.Load.Burst = program.Layouts()[2], 60, 8, 3, 0
		}))
	})
	t.Run("windows", func(t *testing.T) {
		got := simulate(t, func(c *sim.Config) { c.Window, c.Every, c.Steps = 50*time.Millisecond, 170*time.Millisecond, 40 })
		require.Less(t, got.ranks[0].Traced, got.ranks[0].Steps)
		require.Positive(t, got.ranks[0].Traced)
		agree(t, got)
	})
}

// Faults and changes: whatever happens to the fleet, what the account says of what it was told is
// the truth.
func TestSimulatedFaultsGiveTheTruth(t *testing.T) {
	busy := func(c *sim.Config) { c.Load.Rate, c.Load.Prompt, c.Load.Output = 400, 300, 40 }
	for _, k := range fault.Kinds {
		switch k.Name {
		case "hang", "die", "skipped_collective", "lost_records", "restart":
			continue // held apart
		}
		t.Run(k.Name, func(t *testing.T) { agree(t, simulate(t, busy, k.Name+":at=20ms")) })
	}
}

// What a rank that hangs leaves behind is an incomplete step on each rank that waits for it, and
// nothing else.
func TestASimulatedHang(t *testing.T) {
	for _, name := range []string{"hang", "skipped_collective"} {
		got := simulate(t, func(c *sim.Config) { c.Duration = time.Second }, name+":rank=2,at=50ms")
		require.Equal(t, "hang", got.ranks[0].Ended)
		p, _, err := play(got.frames[0], nil)
		require.NoError(t, err)
		booksHold(t, p)
		steps := got.steps[0]
		require.False(t, steps[len(steps)-1].Complete)
		require.EqualValues(t, len(steps)-1, p.Reports()[0].Complete)
		require.EqualValues(t, got.ranks[0].Kernels, p.Reports()[0].Kernels)
	}
}

// Lost records are told of, and their number is the truth.
func TestSimulatedLosses(t *testing.T) {
	got := simulate(t, func(c *sim.Config) { c.Steps = 60 }, "lost_records:rank=1,amount=7,every=100ms")
	require.Positive(t, got.ranks[1].Lost)
	p, _, err := play(got.frames[1], nil)
	require.NoError(t, err)
	booksHold(t, p)
	require.EqualValues(t, got.ranks[1].Kernels-got.ranks[1].Lost, p.Reports()[0].Kernels)
	require.EqualValues(t, got.ranks[1].Lost, p.dropped["cupti_dropped"])
}

// With ranges only there are steps without kernels.
func TestSimulatedRangesOnly(t *testing.T) {
	got := simulate(t, func(c *sim.Config) { c.Untraced = true })
	p, lines, err := play(got.frames[0], nil)
	require.NoError(t, err)
	require.Zero(t, got.ranks[0].Kernels)
	require.EqualValues(t, len(got.steps[0]), p.Reports()[0].StepRanges)
	require.Empty(t, slices.DeleteFunc(lines, func(l StepTotals) bool { return l.Kernels == 0 }))
}

// NCCL's payloads give each rank its number in the world, and each collective its group and bytes.
func TestSimulatedPayloads(t *testing.T) {
	layout, err := program.ParseLayout("tp2dp4")
	require.NoError(t, err)
	got := simulate(t, func(c *sim.Config) { c.Layout = layout })
	groups := map[string]bool{}
	for rank, frames := range got.frames {
		p, _, err := play(frames, nil)
		require.NoError(t, err)
		require.Equal(t, rank, p.nccl.World().Rank)
		require.Equal(t, 8, p.nccl.World().Ranks)
		require.Positive(t, p.nccl.Counts.Payloads)
		require.Zero(t, p.nccl.Counts.Unread+p.nccl.Counts.Refused)
		groups[fmt.Sprint(p.nccl.World().CommID)] = true
	}
	require.Len(t, groups, 1, "one world")

	// Ranks 2 and 3 reduce with each other, 4 with 5: 43 times a step, of 14,336 bytes a token.
	calls := func(rank int) (comm string) {
		p := begin(testSettings(archived), parsed(t, got.frames[rank][0]))
		reader := wire.NewReader(bytes.NewReader(bytes.Join(got.frames[rank][1:], nil)))
		for {
			f, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.NoError(t, p.Frame(f))
		}
		p.End(false)
		steps := 0
		for _, one := range p.TakeChunks() {
			c, err := chunk.Unpack(one.Body)
			require.NoError(t, err)
			{
				for _, s := range c.Steps {
					steps++
					reduced := 0
					for _, at := range s.Shape.Positions {
						if strings.Contains(at.Name, "AllReduce") {
							reduced++
							require.EqualValues(t, max(1, s.Tokens)*7168*2, at.Bytes, "7,168 channels of 2 bytes a token; a step without requests has one")
							require.True(t, comm == "" || comm == at.Group, "%s is not %s", at.Group, comm)
							comm = at.Group
						}
					}
					require.Equal(t, program.Layers, reduced)
				}
			}
		}
		require.Equal(t, len(got.steps[rank]), steps)
		require.Regexp(t, "^nccl:[0-9a-f]{16}$", comm)
		return comm
	}
	require.Equal(t, calls(2), calls(3))
	require.NotEqual(t, calls(3), calls(4))
}

// parsed is a HELLO frame, read.
func parsed(t *testing.T, frame []byte) wire.Hello {
	t.Helper()
	h, err := wire.ParseHello(frame[wire.HeaderSize:])
	require.NoError(t, err)
	return h
}

// A wait is what the durations of one meeting say: each rank's less the shortest, also across
// clocks that differ.
func TestSimulatedWaitsAreInTheDurations(t *testing.T) {
	got := simulate(t, func(c *sim.Config) { c.Load.Rate, c.Load.Prompt = 400, 300 }, "slow_clocks:rank=2,amount=30")
	require.NotEmpty(t, got.waits)
	slow := 0
	for _, w := range got.waits {
		if w.Why == "slow_clocks" {
			slow++
			require.Equal(t, 2, w.By)
		}
		require.Zero(t, slices.Min(w.Wait))
		require.GreaterOrEqual(t, w.Transfer, slices.Max(w.Work)-program.Tick)
	}
	require.Greater(t, slow, len(got.waits)/4)
}
