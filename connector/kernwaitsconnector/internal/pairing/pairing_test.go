package pairing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/digest"
)

var epoch = time.Unix(1_700_000_000, 0)

// A tally counts what a Comparer tells.
type tally struct {
	meetings []Meeting
	calls    map[int64][Outcomes]int
	missing  map[int64][Reasons]int
	dropped  map[int64][Reasons]int
	order    []int64 // seqs of the steps of rank 0
}

func newTally() *tally {
	return &tally{calls: map[int64][Outcomes]int{}, missing: map[int64][Reasons]int{}, dropped: map[int64][Reasons]int{}}
}

func (l *tally) Step(r *Rank, s *digest.Step) {
	if r.ID == 0 {
		l.order = append(l.order, s.Seq)
	}
}
func (l *tally) Together(*Group, []Seat) {}
func (l *tally) Meeting(m *Meeting) {
	kept := *m
	kept.Seats = append([]Seat(nil), m.Seats...)
	l.meetings = append(l.meetings, kept)
}
func (l *tally) Calls(r *Rank, o Outcome, n int) { c := l.calls[r.ID]; c[o] += n; l.calls[r.ID] = c }
func (l *tally) Missing(r *Rank, why Reason)     { c := l.missing[r.ID]; c[why]++; l.missing[r.ID] = c }
func (l *tally) Dropped(r *Rank, why Reason)     { c := l.dropped[r.ID]; c[why]++; l.dropped[r.ID] = c }

// shape is of calls of these groups.
func shape(groups ...string) *digest.Shape {
	s := &digest.Shape{Kernels: len(groups)}
	byName := map[string]int{}
	for i, g := range groups {
		s.Sites = append(s.Sites, digest.Site{Call: g, Group: g, Kind: digest.AllReduce, Position: i})
		at, ok := byName[g]
		if !ok {
			at = len(s.Groups)
			byName[g] = at
			s.Groups = append(s.Groups, digest.Group{Name: g})
		}
		s.Groups[at].Sites = append(s.Groups[at].Sites, i)
	}
	return s
}

// step is a step whose calls end at 100, 200, 300, … µs after the seq-th ms, and have these durations in µs.
func step(seq int64, shape *digest.Shape, durs ...uint64) *digest.Step {
	s := &digest.Step{Seq: seq, Pairs: true, Complete: true, Program: "decode", Shape: shape, Start: uint64(1_000_000 * seq)}
	for i, d := range durs {
		end := s.Start + uint64(i+1)*100_000
		s.Calls = append(s.Calls, digest.Call{Start: end - 1000*d, Dur: 1000 * d})
	}
	return s
}

var set = Settings{Wait: 10 * time.Second, MaxBytes: 1 << 20}

func source(rank int64) Source { return Source{Run: "run", Rank: rank, Host: "host"} }

func TestTheShortestCallIsTheLast(t *testing.T) {
	l := newTally()
	c := New(set, l)
	sh := shape("tp", "tp")
	c.Add(c.Rank(source(0), epoch), step(1, sh, 10, 7), epoch)
	c.Add(c.Rank(source(1), epoch), step(1, sh, 30, 7), epoch)
	c.Add(c.Rank(source(2), epoch), step(1, sh, 25, 9), epoch)
	c.Flush()
	require.Len(t, l.meetings, 2)
	m := l.meetings[0]
	require.Equal(t, []any{uint64(10_000), 0, uint64(0), uint64(20_000), uint64(15_000)}, []any{m.Shortest, m.Last, m.Wait(0), m.Wait(1), m.Wait(2)})
	m = l.meetings[1]
	require.Equal(t, []any{uint64(7_000), 0}, []any{m.Shortest, m.Last}, "of equal ones the lowest rank")
}

// Ranks meet in the n-th call of a group, whatever lies between.
func TestMeetingsComeInTheOrderOfEachRank(t *testing.T) {
	l := newTally()
	c := New(set, l)
	c.Add(c.Rank(source(0), epoch), step(1, shape("tp:0", "ep", "tp:0"), 1, 2, 3), epoch)
	c.Add(c.Rank(source(1), epoch), step(1, shape("tp:0", "ep", "tp:0"), 1, 2, 3), epoch)
	c.Add(c.Rank(source(2), epoch), step(1, shape("tp:1", "ep", "tp:1"), 1, 2, 3), epoch)
	c.Add(c.Rank(source(3), epoch), step(1, shape("tp:1", "ep", "tp:1"), 1, 2, 3), epoch)
	c.Flush()
	seen := map[string]int{}
	for _, m := range l.meetings {
		if m.Group.Name == "ep" {
			require.Equal(t, map[string]int{"tp:0": 1, "tp:1": 1}, seen, "meetings before that of experts")
		}
		seen[m.Group.Name]++
	}
	require.Equal(t, map[string]int{"tp:0": 2, "tp:1": 2, "ep": 1}, seen)
}

// A step waits for the ranks that are known, and no longer than is set.
func TestAStepWaitsForItsRanks(t *testing.T) {
	l := newTally()
	c := New(set, l)
	sh := shape("tp")
	at := func(s float64) time.Time { return epoch.Add(time.Duration(s * 1e9)) }
	zero, one := c.Rank(source(0), at(0)), c.Rank(source(1), at(0))
	c.Add(zero, step(1, sh, 5), at(0))
	c.Add(one, step(1, sh, 6), at(0))
	c.Tick(at(2.9))
	require.Empty(t, l.meetings, "another rank may come yet")
	c.Tick(at(3))
	require.Len(t, l.meetings, 1)

	c.Add(zero, step(2, sh, 5), at(4))
	c.Tick(at(13.9))
	require.Len(t, l.order, 1)
	c.Tick(at(14))
	require.Equal(t, []int64{1, 2}, l.order)
	require.Equal(t, [Outcomes]int{Compared: 1, MissingRank: 1}, l.calls[0])
	require.Equal(t, [Reasons]int{Absent: 1}, l.missing[1])
	require.Zero(t, l.missing[0])

	one = c.Rank(source(1), at(15))
	c.Add(one, step(2, sh, 6), at(15))
	require.Equal(t, [Reasons]int{Late: 1}, l.dropped[1])
	c.Add(one, step(2, sh, 6), at(15))
	require.Equal(t, [Reasons]int{Late: 1, Duplicate: 1}, l.dropped[1])
	require.Equal(t, [Outcomes]int{Compared: 1, MissingRank: 1}, l.calls[1])

	c.Add(one, step(3, sh, 6), at(16))
	c.Add(one, step(3+window, sh, 6), at(16))
	c.Add(zero, step(3+window, sh, 6), at(16))
	c.Tick(at(16))
	require.Equal(t, []int64{1, 2, 3 + window}, l.order, "a rank that is far ahead has no step behind")
	require.Equal(t, [Reasons]int{Absent: 1}, l.missing[0])
	steps, bytes := c.Pending()
	require.Zero(t, steps)
	require.Zero(t, bytes)
}

// Memory is bounded: the oldest steps are compared as they are.
func TestMemoryIsBounded(t *testing.T) {
	l := newTally()
	sh := shape("tp")
	each := step(0, sh, 5).Bytes()
	c := New(Settings{Wait: time.Hour, MaxBytes: 10 * each}, l)
	for seq := range int64(100) {
		c.Add(c.Rank(source(0), epoch), step(seq, sh, 5), epoch)
	}
	steps, bytes := c.Pending()
	require.Equal(t, 10, steps)
	require.Equal(t, 10*each, bytes)
	require.Equal(t, [Outcomes]int{Alone: 90}, l.calls[0])
}

// Steps without a common seq, and those that lack records, are counted.
func TestWhatDoesNotPairIsCounted(t *testing.T) {
	l := newTally()
	c := New(set, l)
	sh := shape("tp")
	zero, one := c.Rank(source(0), epoch), c.Rank(source(1), epoch)
	c.Add(zero, step(1, sh, 5), epoch)
	c.Add(one, step(1, sh, 5), epoch)
	s := step(1<<62, sh, 5)
	s.Pairs = false
	c.Add(zero, s, epoch)
	s = step(2, sh, 5)
	s.Complete = false
	c.Add(zero, s, epoch)
	c.Add(one, step(2, sh, 5), epoch)
	c.Add(zero, step(3, shape("tp", "tp"), 5, 5), epoch)
	c.Add(one, step(3, sh, 5), epoch)
	c.Add(zero, step(4, sh, 5), epoch)
	late := step(4, sh, 5)
	late.Calls[0].Start += 300_000
	c.Add(one, late, epoch)
	c.Flush()
	require.Equal(t, [Outcomes]int{Compared: 1, Unpaired: 1, Incomplete: 1, MissingRank: 2, Unmatched: 1}, l.calls[0])
	require.Equal(t, [Outcomes]int{Compared: 1, MissingRank: 1, Diverged: 1, Unmatched: 1}, l.calls[1])
	require.Equal(t, [Reasons]int{IncompleteStep: 1}, l.missing[0])
}

// A rank whose clock jumped is trusted again when 8 steps in a row agree.
func TestAClockThatJumpsIsTrustedAgain(t *testing.T) {
	l := newTally()
	c := New(set, l)
	sh := shape("tp")
	for seq := range int64(20) {
		s := step(seq, sh, 5)
		if seq >= 5 {
			s.Calls[0].Start += 50_000
		}
		c.Add(c.Rank(source(0), epoch), step(seq, sh, 5), epoch)
		c.Add(c.Rank(source(1), epoch), s, epoch)
	}
	c.Flush()
	require.Equal(t, [Outcomes]int{Compared: 12, Unmatched: 8}, l.calls[1])
}
