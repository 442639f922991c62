package fleet

import (
	"math"
	"math/rand/v2"

	"github.com/kernhes/kernhes/internal/sim/program"
)

// A group of ranks that meet; call counts the rank's meetings of that kind in the step.
type group struct {
	meets program.Meeting
	group int
	call  int
}

// A Meeting is one call in which ranks wait for each other.
type Meeting struct {
	Seq      uint64
	Kind     program.Meeting
	Group    int
	Call     string // the label on the first rank
	Ranks    []int
	Enter    []int64 // by rank
	Work     []int64 // by rank: its part of the work, ns
	Arrived  int64   // when the last entered
	Leave    int64
	Last     int    // the rank that entered last
	Why      string // what made it the last
	Extra    int64  // ns that the fault Why had added to it
	Heaviest int    // the rank with the most work
	Slow     bool   // a slow link

	members []*rank
}

// Wait is how long the i-th rank waited for the last.
func (m *Meeting) Wait(i int) int64 { return m.Arrived - m.Enter[i] }

// enter brings a rank to a meeting, and ends it when all are there.
func (f *Fleet) enter(r *rank, s *Step, k *program.Kernel, start int64, waiting map[group]*Meeting) bool {
	g := group{k.Meets, f.Layout.Group(k.Meets, r.id), r.met[k.Meets]}
	m := waiting[g]
	if m == nil {
		m = &Meeting{Seq: s.Seq, Kind: g.meets, Group: g.group, Call: k.Call}
		waiting[g] = m
	}
	r.met[k.Meets]++
	r.waits = true
	m.members = append(m.members, r)
	m.Ranks, m.Enter = append(m.Ranks, r.id), append(m.Enter, start)
	m.Work = append(m.Work, f.work(r, k, int64(float64(k.Cost.Ticks(s.Batch)*tick)*f.load(r.id, k, start)), start))
	s.Spans = append(s.Spans, Span{Kernel: k, Index: r.next, Start: start})
	if len(m.members) < len(f.Layout.Members(g.meets, g.group)) {
		return false
	}
	f.leave(m)
	return true
}

// leave ends a meeting.
func (f *Fleet) leave(m *Meeting) {
	var work int64
	factor := 1.0
	for i, r := range m.members {
		if m.Enter[i] > m.Arrived {
			m.Arrived, m.Last = m.Enter[i], r.id
		}
		if m.Work[i] > work {
			work, m.Heaviest = m.Work[i], r.id
		}
	}
	for _, r := range m.members {
		if x := f.Schedule.Factor("slow_link", r.id, f.at(m.Arrived)); x != 1 {
			factor, m.Slow = math.Max(factor, x), true
		}
	}
	m.Leave = m.Arrived + ticks(float64(work)*factor)
	m.Why, m.Extra = f.why(m)
	for _, r := range m.members {
		spans := r.step.Spans
		spans[len(spans)-1].End = m.Leave
		r.free, r.waits = m.Leave, false
		r.next++
		clear(r.extra)
	}
	f.meetings = append(f.meetings, m)
}

// why says what made the last rank the last: a fault that added at least half of its lag behind the
// one before it, else that it ran another program or batch than the others, else nothing but
// jitter.
func (f *Fleet) why(m *Meeting) (string, int64) {
	var last *rank
	before := int64(math.MinInt64)
	for i, r := range m.members {
		if r.id == m.Last {
			last = r
		} else {
			before = max(before, m.Enter[i])
		}
	}
	if len(m.members) == 1 {
		return "alone", 0
	}
	fault, most := "", int64(0)
	for name, ns := range last.extra {
		if ns > most || ns == most && name < fault {
			fault, most = name, ns
		}
	}
	if most > 0 && most >= (m.Arrived-before)/2 {
		return fault, most
	}
	why := "jitter"
	for _, r := range m.members {
		a, b := last.step, r.step
		switch {
		case a.Program.Name != b.Program.Name:
			return "program", 0
		case a.Batch.Tokens != b.Batch.Tokens:
			why = "batch"
		case a.Batch.KV != b.Batch.KV && why == "jitter":
			why = "context"
		}
	}
	return why, 0
}

// load is a rank's share of a layer's experts, relative to the mean.
func (f *Fleet) load(id int, k *program.Kernel, now int64) float64 {
	if k.Meets != program.Experts {
		return 1
	}
	key := load{id, k.Layer}
	x, ok := f.loads[key]
	if !ok {
		rng := rand.New(rand.NewPCG(f.seed+f.moved<<32, uint64(id)<<16|uint64(k.Layer)))
		x = math.Max(0.3, 1+f.Skew*rng.NormFloat64())
		f.loads[key] = x
	}
	for _, e := range f.Schedule.On("hot_expert", id, f.at(now)) {
		if e.Layer < 0 || e.Layer == k.Layer {
			x *= e.Size
		}
	}
	return x
}
