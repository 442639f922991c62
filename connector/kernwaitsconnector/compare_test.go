package kernwaitsconnector

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/cause"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// A witness takes down each meeting's waits by the last rank and cause, beside the comparison.
type witness struct {
	*comparison
	seen []seen
}

type seen struct {
	seq        int64
	last, rank int64
	cause      cause.Cause
	wait       uint64
}

func (w *witness) Meeting(m *pairing.Meeting) {
	w.causes.Meeting(m, func(seat int, why cause.Cause, wait uint64) {
		w.seen = append(w.seen, seen{m.Seq, m.Seats[m.Last].Rank.ID, m.Seats[seat].Rank.ID, why, wait})
	})
}

// witnessed are the waits of all ranks.
func witnessed(ranks ...[]*chunk.Chunk) []seen {
	w := &witness{comparison: newComparison(createDefaultConfig().(*Config))}
	w.comparison.pairing = pairing.New(pairing.Settings{Wait: time.Second, MaxBytes: 1 << 30}, w)
	for rank := range ranks {
		for _, c := range ranks[rank] {
			w.chunk(c, epoch)
		}
	}
	w.comparison.pairing.Flush()
	return w.seen
}

// The drill that was recorded: in round 2, before decode steps 1, 5, 9, … of each kind, a matrix product ran on rank 1's GPU. The
// figures are those of the recording's README: rank 0 waits some 1.45 ms more in those steps, and rank 1's foreign compute is 1.43 ms.
func TestTheRecordedDrillBlamesRank1(t *testing.T) {
	disturbed := map[int64]bool{}
	chunks := tp2(t, func(rank int, s *chunk.Step) {
		if rank == 1 && s.Foreign > 1_000_000 {
			disturbed[s.Seq] = true
		}
	})
	require.Len(t, disturbed, 15)
	bySeq := map[int64]map[cause.Cause]uint64{}
	for _, s := range witnessed(chunks[0], chunks[1]) {
		require.NotEqual(t, s.last, s.rank)
		if s.last == 1 {
			if bySeq[s.seq] == nil {
				bySeq[s.seq] = map[cause.Cause]uint64{}
			}
			bySeq[s.seq][s.cause] += s.wait
		} else if disturbed[s.seq] {
			require.Less(t, s.wait, uint64(20_000), "rank 0 is blamed in step %d", s.seq)
		}
	}
	for seq, by := range bySeq {
		if disturbed[seq] {
			require.Greater(t, by[cause.Foreign], uint64(1_380_000), "step %d", seq)
			require.Less(t, by[cause.Slow], uint64(100_000), "step %d", seq)
		} else {
			require.Zero(t, by[cause.Foreign], "step %d", seq)
		}
	}
	for seq := range disturbed {
		require.Contains(t, bySeq, seq)
	}
}

// Of the recording each communication kernel is compared, and blame adds up to the waits.
func TestTheRecordedDrillAddsUp(t *testing.T) {
	chunks := tp2(t, nil)
	run := compared(t, nil, chunks[0], chunks[1]).only(t)
	for rank := range int64(2) {
		require.Equal(t, [pairing.Outcomes]uint64{pairing.Compared: 189 * 72}, run.ledger.Rank(rank).Calls)
	}
	zero, one := totals(run, 0), totals(run, 1)
	require.Equal(t, zero.Wait, one.Blame)
	require.Equal(t, one.Wait, zero.Blame)
	// By hand: the durations of the two ranks at each position.
	var wait [2]uint64
	var transfer uint64
	steps := map[int64]*chunk.Step{}
	for _, c := range chunks[0] {
		for i := range c.Steps {
			steps[c.Steps[i].Seq] = &c.Steps[i]
		}
	}
	for _, c := range chunks[1] {
		for i := range c.Steps {
			for p := range c.Steps[i].Durs {
				if c.Steps[i].Outside || c.Steps[i].Shape.Positions[p].Class != chunk.Comm {
					continue
				}
				a, b := steps[c.Steps[i].Seq].Durs[p], c.Steps[i].Durs[p]
				wait[0] += a - min(a, b)
				wait[1] += b - min(a, b)
				transfer += min(a, b)
			}
		}
	}
	require.Equal(t, wait, [2]uint64{all(zero.Wait), all(one.Wait)})
	require.Equal(t, [2]uint64{transfer, transfer}, [2]uint64{zero.Transfer, one.Transfer})
}

// busIsKnown holds the bytes on the bus of all-reduces of two ranks to the messages in the chunks: of two ranks, each message once.
func busIsKnown(t *testing.T, run *runState, s simulation) {
	t.Helper()
	want := map[string]float64{}
	for rank := 0; rank < len(s.chunks); rank++ {
		for _, c := range s.chunks[rank] {
			for i := range c.Steps {
				for _, p := range c.Steps[i].Shape.Positions {
					if p.Bytes > 0 && strings.Contains(p.Name, "AllReduce") {
						want[p.Group] += float64(p.Bytes)
					}
				}
			}
		}
	}
	ranks := float64(len(s.chunks)) / float64(max(len(want), 1)) // of a group, each of which has the message
	for _, b := range run.ledger.Buses() {
		require.Equal(t, "all_reduce", b.Op)
		require.InEpsilon(t, want[b.Group]/ranks*2*(ranks-1)/ranks, b.Bytes, 1e-9)
		require.Positive(t, b.NS)
		delete(want, b.Group)
	}
	require.Empty(t, want, "groups without a bus")
}

func TestSimulatedWaitsAreTheTruth(t *testing.T) {
	for _, layout := range program.Layouts() {
		t.Run(layout.Name, func(t *testing.T) {
			s := simulate(t, layout, nil, func(c *sim.Config) { c.Load.Mixed = true })
			c := compared(t, nil, s.chunks...)
			run := c.only(t)
			for rank, want := range s.wanted(layout.Ranks()) {
				got := totals(run, int64(rank))
				t.Log(rank, run.ledger.Rank(int64(rank)).Calls, got)
				require.Equal(t, want.Meetings, got.Meetings)
				require.Equal(t, want.Transfer, got.Transfer)
				require.Equal(t, all(want.Wait), all(got.Wait))
				require.Equal(t, all(want.Blame), all(got.Blame))
				require.Equal(t, want.Last, got.Last)
			}
			busIsKnown(t, run, s)
		})
	}
}

// A waited is what a rank waited in a program of the recording.
type waited struct {
	Program  string `json:"program"`
	Rank     int64  `json:"rank"`
	Times    uint64 `json:"times"`
	Wait     uint64 `json:"wait_ns"`
	Blame    uint64 `json:"blame_ns"`
	Transfer uint64 `json:"transfer_ns"`
}

// The connector and queries/waits.sql agree on the recording: the tests of both hold testdata/tp2_waits.json.
func TestTheRecordedDrillIsAsInTheArchive(t *testing.T) {
	chunks := tp2(t, nil)
	var got []waited
	for _, s := range compared(t, nil, chunks[0], chunks[1]).only(t).ledger.Sums() {
		got = append(got, waited{s.Program, s.Rank, s.Meetings, all(s.Wait), all(s.Blame), s.Transfer})
	}
	const path = "testdata/tp2_waits.json"
	if *update {
		text, err := json.MarshalIndent(got, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var want []waited
	require.NoError(t, json.Unmarshal(text, &want))
	require.Equal(t, want, got)
}
