package kernhesreceiver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
	"github.com/kernhes/kernhes/internal/sim/truth"
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
		require.Len(t, p.reports(), 1)
		r, want := p.reports()[0], got.ranks[rank]
		require.EqualValues(t, want.Kernels, r.kernels, "kernels")
		require.EqualValues(t, want.First, r.firstNS, "first")
		require.EqualValues(t, want.Last, r.lastNS, "last")
		require.EqualValues(t, want.Compute, r.computeNS, "compute")
		require.EqualValues(t, want.Comm, r.commNS, "comm")
		require.EqualValues(t, want.Overlap, r.overlapNS, "overlap")
		require.EqualValues(t, want.Copy, r.copyNS, "copy")
		require.EqualValues(t, want.Idle, r.idleNS+r.unknownNS, "idle and unknown")
		if want.Traced == want.Steps {
			require.EqualValues(t, want.Idle, r.idleNS, "idle")
		}
		bySeq := map[uint64]stepLine{}
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
		require.EqualValues(t, complete, r.complete, "complete steps")
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
	t.Run("windows", func(t *testing.T) {
		got := simulate(t, func(c *sim.Config) { c.Window, c.Every, c.Steps = 50*time.Millisecond, 170*time.Millisecond, 40 })
		require.Less(t, got.ranks[0].Traced, got.ranks[0].Steps)
		require.Positive(t, got.ranks[0].Traced)
		agree(t, got)
	})
}
