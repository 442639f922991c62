package kernwaitsconnector

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/cause"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/diverge"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/ledger"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// decoding has a fleet decode nearly all the time: contexts are short, and few requests come.
func decoding(c *sim.Config) {
	c.Steps, c.Load.Rate, c.Load.Prompt, c.Load.Output, c.Load.Burst = 40, 30, 200, 4000, 0
}

// Each fault of one rank is put down to that rank, by the cause that the truth has.
func TestFaultsAreBlamedByCause(t *testing.T) {
	ep4 := program.Layouts()[0]
	for _, c := range []struct {
		fault string
		rank  int64
		cause cause.Cause
		least uint64 // ns of blame a step
	}{
		{"foreign_gemm:rank=1,amount=3,every=50ms", 1, cause.Foreign, 300_000},
		{"slow_clocks:rank=2,amount=30", 2, cause.Slow, 300_000},
		{"host_gaps:rank=3,amount=2", 3, cause.Host, 3_000_000},
		{"stall:rank=0,at=220ms,amount=80", 0, cause.Host, 3_000_000},
	} {
		t.Run(c.fault, func(t *testing.T) {
			s := simulate(t, ep4, nil, decoding, c.fault)
			run := compared(t, nil, s.chunks...).only(t)
			for rank := range int64(4) {
				blame := totals(run, rank).Blame
				t.Log(rank, blame)
			}
			blame := totals(run, c.rank).Blame
			require.Greater(t, blame[c.cause], 40*c.least)
			for rank := range int64(4) {
				if rank != c.rank {
					require.Less(t, 5*totals(run, rank).Blame[c.cause], blame[c.cause], "rank %d", rank)
				}
			}
		})
	}
}

// Peers that compute a prompt are no slow ranks. What the truth puts down to the program is peer_prefill here.
func TestAPeersPrefillIsNamedSo(t *testing.T) {
	s := simulate(t, program.Layouts()[0], nil, func(c *sim.Config) { c.Steps, c.Load.Rate = 40, 40 })
	run := compared(t, nil, s.chunks...).only(t)
	var byProgram, slow, prefill uint64
	for _, w := range s.waits {
		for i := range w.Ranks {
			if w.Why == "program" {
				byProgram += uint64(w.Wait[i])
			}
		}
	}
	for rank := range int64(4) {
		blame := totals(run, rank).Blame
		slow, prefill = slow+blame[cause.Slow], prefill+blame[cause.PeerPrefill]
	}
	require.Greater(t, byProgram, uint64(100_000_000))
	require.InEpsilon(t, byProgram, prefill, 0.05)
	require.Less(t, 20*slow, prefill)
}

// Longer contexts on one rank make the others wait in the steps in which all ranks decode.
func TestSkewedContextsRaiseWaits(t *testing.T) {
	wait := func(faults ...string) (mean uint64) {
		s := simulate(t, program.Layouts()[0], nil, func(c *sim.Config) {
			decoding(c)
			c.Load.Prompt = 2000
		}, faults...)
		decode := map[int64]int{}
		for _, l := range s.steps {
			if l.Program == "decode_batch" {
				decode[int64(l.Seq)]++
			}
		}
		var sum, steps uint64
		for _, seen := range witnessed(s.chunks...) {
			if decode[seen.seq] == 4 {
				sum += seen.wait
			}
		}
		for _, ranks := range decode {
			if ranks == 4 {
				steps++
			}
		}
		require.Positive(t, steps)
		return sum / steps
	}
	require.Greater(t, wait("skewed_contexts:rank=1,amount=8"), wait()*3/2)
}

// All ranks leave a layer with a hot expert together, so nobody waits more; but its transfer stands out among the layers.
func TestAHotExpertShowsInItsLayer(t *testing.T) {
	s := simulate(t, program.Layouts()[0], nil, decoding, "hot_expert:rank=2,layer=7,amount=2")
	run := compared(t, nil, s.chunks...).only(t)
	hottest := ""
	most := uint64(0)
	for _, c := range run.ledger.Calls(1 << 20) {
		if c.Program == "decode_batch" && c.Transfer/c.Meetings > most {
			hottest, most = c.Call, c.Transfer/c.Meetings
		}
	}
	require.Equal(t, "decode.target.moe.layers.7.experts", hottest)
}

// A rank that lacks records is named, and nothing is compared without it.
func TestLostRecordsAreSaid(t *testing.T) {
	s := simulate(t, program.Layouts()[0], nil, decoding, "lost_records:rank=1,at=200ms,amount=50")
	run := compared(t, nil, s.chunks...).only(t)
	lost := uint64(0)
	for _, l := range s.steps {
		if l.Lost > 0 {
			require.Equal(t, 1, l.Rank)
			lost++
		}
	}
	require.Positive(t, lost)
	require.Equal(t, lost, run.ledger.Rank(1).Missing[pairing.IncompleteStep])
	for rank := range int64(4) {
		r := run.ledger.Rank(rank)
		require.Equal(t, 43*(40-lost), r.Calls[pairing.Compared], "rank %d", rank)
		if rank != 1 {
			require.Equal(t, 43*lost, r.Calls[pairing.MissingRank], "rank %d", rank)
			require.Zero(t, r.Missing)
		}
	}
}

// A rank whose seqs are shifted by one is compared with no other.
func TestAShiftedSeqIsSaid(t *testing.T) {
	s := simulate(t, program.Layouts()[0], nil, decoding)
	for _, c := range s.chunks[2] {
		for i := range c.Steps {
			c.Steps[i].Seq++
		}
	}
	run := compared(t, nil, s.chunks...).only(t)
	require.Zero(t, run.ledger.Rank(2).Calls[pairing.Compared])
	require.Equal(t, uint64(43*40), run.ledger.Rank(2).Calls[pairing.Alone])
	require.Equal(t, uint64(43*40), run.ledger.Rank(0).Calls[pairing.Compared], "the others leave together")
}

// The same of a recording, where a shift leaves the steps alike, by ranks whose group is known.
func TestAShiftedSeqOfARecordingIsSaid(t *testing.T) {
	chunks := tp2(t, func(rank int, s *chunk.Step) {
		for i := range s.Shape.Positions {
			if p := &s.Shape.Positions[i]; p.Class == chunk.Comm {
				p.Group = "nccl:1"
			}
		}
		if rank == 1 && s.Seq > 90 {
			s.Seq++
		}
	})
	run := compared(t, nil, chunks[0], chunks[1]).only(t)
	for rank := range int64(2) {
		calls := run.ledger.Rank(rank).Calls
		require.Equal(t, uint64(90*72), calls[pairing.Compared], "rank %d", rank)
		require.Equal(t, uint64(98*72), calls[pairing.Unmatched], "rank %d", rank)
		require.Equal(t, uint64(72), calls[pairing.MissingRank], "rank %d", rank)
	}
}

// Two replicas of two ranks in one run have equal seqs and programs, and nothing says who communicates with whom.
func TestReplicasDoNotBlameEachOther(t *testing.T) {
	tp2 := program.Layout{Name: "tp2", Data: 1, Tensor: 2, Stages: 1}
	var chunks [][]*chunk.Chunk
	var want []ledger.Sum
	for replica := range uint64(2) {
		s := simulate(t, tp2, nil, func(c *sim.Config) { c.Seed = 1 + replica })
		for _, ofRank := range s.chunks {
			for _, c := range ofRank {
				c.Rank += 2 * int64(replica)
				for _, shape := range c.Shapes {
					for i := range shape.Positions {
						shape.Positions[i].Group = ""
					}
				}
			}
			chunks = append(chunks, ofRank)
		}
		want = append(want, s.wanted(2)...)
	}
	run := compared(t, nil, chunks...).only(t)
	for rank := range int64(4) {
		got := totals(run, rank)
		require.Equal(t, want[rank].Meetings, got.Meetings, "rank %d", rank)
		require.Equal(t, want[rank].Transfer, got.Transfer, "rank %d", rank)
		require.Equal(t, all(want[rank].Wait), all(got.Wait), "rank %d", rank)
		require.Equal(t, all(want[rank].Blame), all(got.Blame), "rank %d", rank)
	}
}

// A rank whose graph has more kernels than its peers' is named, with the first of them.
func TestAnotherGraphIsNamed(t *testing.T) {
	s := simulate(t, program.Layouts()[0], nil, decoding, "other_graph:rank=2,amount=20")
	run := compared(t, nil, s.chunks...).only(t)
	require.NotEmpty(t, run.differ)
	for key := range run.differ {
		require.Equal(t, differKey{2, "decode.extra.0", diverge.Shape}, key)
	}
}

// A slow link makes transfers longer, and nobody is blamed for it.
func TestASlowLinkRaisesTransfer(t *testing.T) {
	ep4 := program.Layouts()[0]
	before := simulate(t, ep4, nil, decoding)
	after := simulate(t, ep4, nil, decoding, "slow_link:rank=1,amount=3")
	a, b := compared(t, nil, before.chunks...).only(t), compared(t, nil, after.chunks...).only(t)
	for rank := range int64(4) {
		was, is := totals(a, rank), totals(b, rank)
		t.Log(was, is)
		require.Greater(t, is.Transfer, 5*was.Transfer/2)
		require.Less(t, float64(is.Blame[cause.Slow]), 1.5*float64(was.Blame[cause.Slow]))
		require.Zero(t, is.Blame[cause.Link])
	}
}
