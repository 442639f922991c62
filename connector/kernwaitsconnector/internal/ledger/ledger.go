// Package ledger adds up what ranks waited, by label set.
package ledger

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/cause"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/digest"
)

// Other is the label of what is beyond a bound.
const Other = "other"

const maxCalls = 4096 // of a run, in the table of calls

// A Key is a label set.
type Key struct {
	Rank           int64
	Program, Group string
}

// A Sum is what is counted for a label set. Times are in ns.
type Sum struct {
	Key
	Wait, Blame    [cause.Causes]uint64
	Transfer       uint64
	Meetings, Last uint64
}

// A Bus is what went over the bus of a group in meetings whose message size is known.
type Bus struct {
	Group, Op string
	Bytes     float64
	NS        uint64
}

// A Rank is what is counted of a rank, whatever it ran.
type Rank struct {
	Rank    int64
	Calls   [pairing.Outcomes]uint64
	Missing [pairing.Reasons]uint64
	Dropped [pairing.Reasons]uint64
}

// A Call is what is counted of a call of a program. Times are in ns.
type Call struct {
	Program  string `json:"program"`
	Call     string `json:"call"`
	Meetings uint64 `json:"meetings"`
	Wait     uint64 `json:"wait_ns"`     // of all ranks
	Transfer uint64 `json:"transfer_ns"` // of one
}

// A Family is what kernels of calls that differ in numbers only took, by rank.
type Family struct {
	Program string            `json:"program"`
	Calls   string            `json:"calls"`
	Ranks   map[int64]*OfRank `json:"ranks"`
}

// A OfRank is that of one rank.
type OfRank struct {
	Steps uint64 `json:"steps"`
	NS    uint64 `json:"ns"`
}

// A Run is the ledger of a run.
type Run struct {
	max      int
	families map[[2]string]*Family
	entries  int // of all families
	sums     map[Key]*Sum
	buses    map[[2]string]*Bus
	ranks    map[int64]*Rank
	seats    map[*pairing.Group]*seats
	calls    map[[2]string]*Call
	known    map[site]*Call
}

// seats are the sums of the seats of a group in one seq, which has many meetings.
type seats struct {
	seq   int64
	ranks []*pairing.Rank
	sums  []*Sum
}

// Seats are the sums of the seats of a meeting.
func (l *Run) Seats(m *pairing.Meeting) []*Sum {
	at := l.seats[m.Group]
	if at == nil {
		if len(l.seats) >= maxCalls {
			clear(l.seats)
		}
		at = &seats{}
		l.seats[m.Group] = at
	}
	if at.seq != m.Seq || len(at.sums) != len(m.Seats) || at.ranks[0] != m.Seats[0].Rank || m.Nth == 0 {
		at.seq, at.sums, at.ranks = m.Seq, at.sums[:0], at.ranks[:0]
		for i := range m.Seats {
			at.sums = append(at.sums, l.Sum(m.Group, &m.Seats[i]))
			at.ranks = append(at.ranks, m.Seats[i].Rank)
		}
	}
	return at.sums
}

// A site names a call without its texts.
type site struct {
	shape   *digest.Shape
	index   int
	program string
}

// New returns a ledger of at most so many label sets.
func New(maxSeries int) *Run {
	return &Run{max: maxSeries, families: map[[2]string]*Family{}, sums: map[Key]*Sum{}, buses: map[[2]string]*Bus{}, ranks: map[int64]*Rank{}, seats: map[*pairing.Group]*seats{}, calls: map[[2]string]*Call{}, known: map[site]*Call{}}
}

// Rank is what is counted of a rank.
func (l *Run) Rank(rank int64) *Rank {
	r := l.ranks[rank]
	if r == nil {
		r = &Rank{Rank: rank}
		l.ranks[rank] = r
	}
	return r
}

// Sum is what is counted for a seat of a group.
func (l *Run) Sum(g *pairing.Group, s *pairing.Seat) *Sum {
	key := Key{s.Rank.ID, s.Step.Program, g.Label()}
	if sum := l.sums[key]; sum != nil {
		return sum
	}
	if len(l.sums) >= l.max {
		key.Program, key.Group = Other, Other
		if sum := l.sums[key]; sum != nil {
			return sum
		}
	}
	sum := &Sum{Key: key}
	l.sums[key] = sum
	return sum
}

// Meeting counts a meeting, but for its waits.
func (l *Run) Meeting(m *pairing.Meeting) {
	for i, sum := range l.Seats(m) {
		sum.Meetings++
		sum.Transfer += m.Shortest
		if i == m.Last {
			sum.Last++
		}
	}
	c := l.call(&m.Seats[0], m.Nth)
	c.Meetings++
	c.Transfer += m.Shortest
	for i := range m.Seats {
		c.Wait += m.Wait(i)
	}
	if op, bytes := busBytes(m); bytes > 0 {
		key := [2]string{m.Group.Label(), op}
		b := l.buses[key]
		if b == nil {
			b = &Bus{Group: key[0], Op: op}
			l.buses[key] = b
		}
		b.Bytes += bytes
		b.NS += m.Shortest
	}
}

// busBytes are what nccl-tests count as the bytes on the bus.
func busBytes(m *pairing.Meeting) (op string, bytes float64) {
	n := float64(len(m.Seats))
	message := float64(m.Seats[0].Site(m.Nth).Bytes)
	switch m.Kind() {
	case digest.AllReduce:
		return "all_reduce", message * 2 * (n - 1) / n
	case digest.AllGather:
		return "all_gather", message * (n - 1)
	case digest.ReduceScatter:
		return "reduce_scatter", message * (n - 1)
	}
	return "", 0
}

// call is what is counted of the call of a seat.
func (l *Run) call(s *pairing.Seat, nth int) *Call {
	at := site{s.Step.Shape, s.Sites[nth], s.Step.Program}
	if c := l.known[at]; c != nil {
		return c
	}
	if len(l.known) >= maxCalls { // shapes of eager steps come and go
		clear(l.known)
	}
	key := [2]string{s.Step.Program, s.Site(nth).Call}
	c := l.calls[key]
	if c == nil {
		if len(l.calls) >= maxCalls {
			key = [2]string{Other, Other}
			c = l.calls[key]
		}
		if c == nil {
			c = &Call{Program: key[0], Call: key[1]}
			l.calls[key] = c
		}
	}
	l.known[at] = c
	return c
}

// maxEntries bounds the families of all ranks.
const maxEntries = 1 << 17

// Families adds what kernels of a rank took.
func (l *Run) Families(rank int64, sums []*digest.Sums) {
	for _, s := range sums {
		for i, ns := range s.NS {
			key := [2]string{s.Program, s.Shape.Families[i]}
			f := l.families[key]
			if f == nil {
				if l.entries >= maxEntries {
					continue
				}
				f = &Family{Program: key[0], Calls: key[1], Ranks: map[int64]*OfRank{}}
				l.families[key] = f
			}
			r := f.Ranks[rank]
			if r == nil {
				if l.entries >= maxEntries {
					continue
				}
				l.entries++
				r = &OfRank{}
				f.Ranks[rank] = r
			}
			r.Steps += s.Steps
			r.NS += ns
		}
	}
}

// Longest are the families whose kernels took longest over all ranks, at most n.
func (l *Run) Longest(n int) []*Family {
	total := map[*Family]uint64{}
	for _, f := range l.families {
		for _, r := range f.Ranks {
			total[f] += r.NS
		}
	}
	all := ordered(l.families, func(a, b *Family) int {
		return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a.Program, b.Program), cmp.Compare(a.Calls, b.Calls))
	})
	return all[:min(n, len(all))]
}

// Sums are all label sets, in order.
func (l *Run) Sums() []*Sum {
	return ordered(l.sums, func(a, b *Sum) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Program, b.Program), cmp.Compare(a.Group, b.Group))
	})
}

// Buses are all buses, in order.
func (l *Run) Buses() []*Bus {
	return ordered(l.buses, func(a, b *Bus) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Op, b.Op)) })
}

// Ranks are all ranks, in order.
func (l *Run) Ranks() []*Rank {
	return ordered(l.ranks, func(a, b *Rank) int { return cmp.Compare(a.Rank, b.Rank) })
}

// Calls are the calls whose meetings took longest, at most n.
func (l *Run) Calls(n int) []*Call {
	all := ordered(l.calls, func(a, b *Call) int {
		return cmp.Or(cmp.Compare(b.Wait+b.Transfer, a.Wait+a.Transfer), cmp.Compare(a.Program, b.Program), cmp.Compare(a.Call, b.Call))
	})
	return all[:min(n, len(all))]
}

func ordered[K comparable, V any](from map[K]*V, by func(a, b *V) int) (all []*V) {
	for _, v := range from {
		all = append(all, v)
	}
	slices.SortFunc(all, by)
	return all
}
