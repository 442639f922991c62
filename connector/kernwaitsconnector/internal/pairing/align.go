package pairing

import "slices"

// How well ends must agree, in ns. Measured on all-reduces of two H200: the ends of the 72 of a step differ by 0.1 µs in the
// median from what they differ in general, and from step to step that changes by at most 1 µs. Where steps are paired
// wrongly, by one, the ends of a step still agree to 1 µs, but from step to step that changes by 12 µs in the median.
const (
	maxSpread = 20_000    // the ends of a step, in the median
	maxJump   = 5_000     // from step to step
	drift     = 1e-4      // that clocks may drift besides: NTP slews by up to 500 ppm, but seldom
	sameHost  = 200_000   // by which two GPUs of a host may be off
	otherHost = 2_000_000 // and those of two hosts, without more evidence
	trust     = 8         // steps in a row that must agree after one that did not
	maxMisses = 16        // steps in a row after which a rank leaves a group that is assumed
	maxDiffs  = 33        // calls that are looked at for the median
)

// A standing is how a rank stands to the clock of its group.
type standing struct {
	rank     *Rank
	known    bool
	offset   int64  // ns: of its clock
	at       uint64 // unix ns, when that was measured
	distrust bool
	agreed   int // steps in a row, while distrust
	misses   int // steps in a row that did not agree
}

// member is the standing of a rank, which is made if need be.
func (g *Group) member(r *Rank) *standing {
	i, ok := slices.BinarySearchFunc(g.members, r.ID, func(s *standing, id int64) int { return int(s.rank.ID - id) })
	if !ok {
		g.members = slices.Insert(g.members, i, &standing{rank: r})
	}
	return g.members[i]
}

// leave ends a membership.
func (g *Group) leave(r *Rank) {
	g.members = slices.DeleteFunc(g.members, func(s *standing) bool { return s.rank == r })
}

// aligning is memory that each alignment uses anew.
type aligning struct {
	diffs  []int64
	seen   []observed
	fits   []Seat
	misfit []Seat
}

// An observed is how the ends of a seat differ from another's.
type observed struct {
	offset int64 // ns, in the median
	spread int64 // ns, from that, in the median
}

// observe compares the ends of two seats of equally many calls.
func (a *aligning) observe(s, to *Seat) observed {
	n := len(s.Sites)
	step := max(1, (n+maxDiffs-1)/maxDiffs)
	a.diffs = a.diffs[:0]
	for i := 0; i < n; i += step {
		a.diffs = append(a.diffs, int64(s.Call(i).End()-to.Call(i).End()))
	}
	slices.Sort(a.diffs)
	o := observed{offset: a.diffs[len(a.diffs)/2]}
	for i, d := range a.diffs {
		a.diffs[i] = abs(d - o.offset)
	}
	slices.Sort(a.diffs)
	o.spread = a.diffs[len(a.diffs)/2]
	return o
}

func abs(n int64) int64 { return max(n, -n) }

// align divides seats of equally many calls into those that leave together, and the others.
func (a *aligning) align(g *Group, seats []Seat) (fits, misfits []Seat) {
	if len(seats) < 2 {
		return seats, nil
	}
	a.fits, a.misfit = a.fits[:0], a.misfit[:0]
	to, most := 0, -1
	for i := 0; i < len(seats) && i < 3 && most < len(seats)/2; i++ { // the first that most agree with is the measure
		if n := a.agree(g, seats, i); n > most {
			to, most = i, n
		}
	}
	a.agree(g, seats, to)
	base := g.member(seats[to].Rank)
	if !base.known {
		base.known, base.offset, base.at = true, 0, seats[to].Step.Start
	}
	base.at = seats[to].Step.Start
	for i := range seats {
		if i == to || g.member(seats[i].Rank).take(base, &seats[i], a.seen[i]) {
			a.fits = append(a.fits, seats[i])
		} else {
			a.misfit = append(a.misfit, seats[i])
		}
	}
	if len(a.fits) == 1 { // no two ranks agree
		return nil, seats
	}
	return a.fits, a.misfit
}

// agree is how many seats agree with one; seen is how.
func (a *aligning) agree(g *Group, seats []Seat, to int) (n int) {
	a.seen = a.seen[:0]
	base := g.member(seats[to].Rank)
	for i := range seats {
		var o observed
		if i != to {
			o = a.observe(&seats[i], &seats[to])
			if ok, _ := g.member(seats[i].Rank).fits(base, &seats[i], o); ok {
				n++
			}
		}
		a.seen = append(a.seen, o)
	}
	return n
}

// fits reports whether what was observed fits what is known of the rank's clock; sure: nothing more needs to be known.
func (s *standing) fits(base *standing, seat *Seat, o observed) (ok, sure bool) {
	limit := int64(otherHost)
	same := s.rank.Host == base.rank.Host
	if same {
		limit = sameHost
	}
	near := abs(o.offset) <= limit
	if o.spread > maxSpread || same && !near {
		return false, false
	}
	if !s.known || !base.known {
		return true, near
	}
	passed := abs(int64(seat.Step.Start - s.at))
	return abs(o.offset+base.offset-s.offset) <= maxJump+int64(drift*float64(passed)), true
}

// take notes what was observed of a rank, and reports whether its calls can be compared.
func (s *standing) take(base *standing, seat *Seat, o observed) bool {
	ok, sure := s.fits(base, seat, o)
	s.known, s.offset, s.at = true, o.offset+base.offset, seat.Step.Start
	switch {
	case !ok:
		s.distrust, s.agreed = true, 0
		s.misses++
		return false
	case !sure:
		s.distrust, s.agreed = true, 0
	}
	s.misses = 0
	if s.distrust {
		s.agreed++
		s.distrust = s.agreed < trust
	}
	return !s.distrust
}

// findLoose finds the calls of a kind that is not known whose ranks do not leave together.
func (a *aligning) findLoose(g *Group) {
	seats := g.matched
	for n := range seats[0].Sites {
		if kindOf(seats, n) != 0 {
			continue
		}
		if len(g.loose) == 0 {
			g.loose = append(g.loose, make([]bool, len(seats[0].Sites))...)
		}
		base := g.member(seats[0].Rank)
		for i := 1; i < len(seats); i++ {
			s := g.member(seats[i].Rank)
			if abs(int64(seats[i].Call(n).End()-seats[0].Call(n).End())-(s.offset-base.offset)) > maxSpread {
				g.loose[n] = true
			}
		}
	}
}
