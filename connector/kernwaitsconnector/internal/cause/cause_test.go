package cause

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/digest"
)

var shape = &digest.Shape{Sites: []digest.Site{{}, {}}}

// A scene is two ranks that left a meeting together at 100 µs, and meet again. Times are in µs.
type scene struct {
	teller *Teller
	group  *pairing.Group
	run    *pairing.Run
	ranks  [2]*pairing.Rank
}

func newScene() *scene {
	s := &scene{teller: New(Standard), group: &pairing.Group{Name: "tp"}, run: &pairing.Run{}}
	for i := range s.ranks {
		s.ranks[i] = &pairing.Rank{Run: s.run, ID: int64(i)}
	}
	return s
}

// A doing is what one rank does until the second meeting of its step, in µs.
type doing struct {
	compute, gap uint64 // since the first meeting
	program      string
	tokens, seqs int64
	typical      uint64
	foreign      uint64
}

// why has rank 0 wait for rank 1 in a second meeting, and returns the cause.
func (s *scene) why(t *testing.T, seq int64, waits, last doing) (got Cause) {
	t.Helper()
	var seats []pairing.Seat
	arrive := [2]uint64{}
	for i, d := range []doing{waits, last} {
		arrive[i] = 100 + d.compute + d.gap
	}
	leave := max(arrive[0], arrive[1]) + 10
	for i, d := range []doing{waits, last} {
		at := func(us uint64) uint64 { return uint64(seq)*1e9 + 1000*us }
		step := &digest.Step{Seq: seq, Program: d.program, Tokens: d.tokens, Seqs: d.seqs, Typical: d.typical, Foreign: 1000 * d.foreign, Shape: shape,
			Start: at(0), End: at(leave), Compute: 1000 * (50 + d.compute), Calls: []digest.Call{
				{Start: at(60), Dur: 40_000, Before: 50_000, Until: 50_000},
				{Start: at(arrive[i]), Dur: 1000 * (leave - arrive[i]), Before: 1000 * (50 + d.compute), Until: 1000 * (50 + d.compute)},
			}}
		s.teller.Step(s.ranks[i], step)
		seats = append(seats, pairing.Seat{Rank: s.ranks[i], Step: step, Sites: []int{0, 1}})
	}
	s.teller.Meeting(&pairing.Meeting{Group: s.group, Seq: seq, Seats: seats, Shortest: 40_000}, func(int, Cause, uint64) { t.Fatal("nobody waits in the first") })
	n := 0
	s.teller.Meeting(&pairing.Meeting{Group: s.group, Seq: seq, Nth: 1, Seats: seats, Shortest: 10_000, Last: 1}, func(seat int, c Cause, wait uint64) {
		n++
		require.Zero(t, seat)
		require.Equal(t, 1000*(arrive[1]-arrive[0]), wait)
		got = c
	})
	require.Equal(t, 1, n)
	return got
}

func TestCauses(t *testing.T) {
	decode := func(compute, gap uint64) doing {
		return doing{compute: compute, gap: gap, program: "decode", tokens: 8, seqs: 8, typical: 5000}
	}
	with := func(d doing, change func(*doing)) doing { change(&d); return d }
	check := func(what string, want Cause, waits, last doing) {
		t.Helper()
		s := newScene()
		s.teller.Step(s.ranks[0], &digest.Step{Shape: shape, Program: last.program, Tokens: last.tokens, Typical: 5000}) // what others take
		require.Equal(t, want, s.why(t, 1, waits, last), what)
	}
	check("the same work, longer", Slow, decode(100, 5), decode(150, 5))
	check("launched late", Host, decode(100, 5), decode(101, 80))
	check("launched late, without a request", IdlePeer, decode(100, 5), with(decode(101, 80), func(d *doing) { d.tokens, d.seqs = 0, 0 }))
	check("another program", PeerPrefill, decode(100, 5), doing{compute: 900, gap: 5, program: "prefill", tokens: 2000, seqs: 1, typical: 5000})
	check("a larger batch", PeerPrefill, decode(100, 5), with(decode(150, 5), func(d *doing) { d.tokens = 32 }))
	check("a larger batch, but its kernels are slower than others' of that batch", Slow, decode(100, 5),
		with(decode(150, 5), func(d *doing) { d.tokens, d.typical = 9, 8000 }))
	check("a smaller batch is no reason", Slow, decode(100, 5), with(decode(150, 5), func(d *doing) { d.tokens = 2 }))
	check("foreign compute delays the next kernel", Foreign, decode(100, 5), with(decode(101, 80), func(d *doing) { d.foreign = 76 }))
	check("foreign compute stretches its kernels", Foreign, decode(100, 5), with(decode(170, 5), func(d *doing) { d.foreign = 100 }))
	check("a little foreign compute is not the cause", Host, decode(100, 5), with(decode(101, 80), func(d *doing) { d.foreign = 10 }))
}

func TestParts(t *testing.T) {
	require.Equal(t, -1, part(0, 3))
	for n := int64(1); n < 1<<20; n += 1 + n/50 {
		require.LessOrEqual(t, part(n, 3), part(n+1, 3))
		require.Greater(t, part(n+n/4+1, 3), part(n, 3), "%d: a quarter more is told apart", n)
	}
}
