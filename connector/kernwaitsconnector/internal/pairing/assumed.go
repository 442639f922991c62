package pairing

import "slices"

// Where nothing says which ranks a call communicates with, ranks are put into one group when their times prove it: in a
// meeting, who arrives later has the shorter call. Over the calls of some steps, the difference of two ranks' durations falls
// by 1 for each ns that the difference of their arrivals grows.
const (
	maxTries    = 8    // groups that a rank tries in a step
	minSamples  = 8    // calls
	maxSamples  = 256  // calls, after which a trial begins anew
	steepest    = -0.7 // slope
	determined  = 0.5  // r²
	noVariation = 1e4  // ns², below which arrivals do not vary, and no rank waits
)

// A home is a seat of calls whose group is not known.
type home struct {
	seat  Seat
	group *Group
}

// A trial is the evidence that a rank belongs to a group.
type trial struct {
	group         *Group
	n             int
	sxx, sxy, syy float64 // arrivals and durations, about the means of each step
}

// findHomes puts the seats of calls whose group is not known into groups.
func (c *Comparer) findHomes() {
	homes := c.work.homes
	for i := range homes {
		h := &homes[i]
		r := h.seat.Rank
		if r.home != nil && len(r.home.members) > 1 && r.home.member(r).misses > maxMisses {
			r.home.leave(r)
			r.home = nil
		}
		if r.home == nil {
			r.home = &Group{}
		}
		h.group = r.home
		c.sit(h.group, h.seat)
	}
	for i := range homes {
		if h := &homes[i]; len(h.group.members) == 1 {
			c.visit(h, homes[:i])
		}
	}
	// Groups that lost their only rank are no more.
	c.work.groups = slices.DeleteFunc(c.work.groups, func(g *Group) bool { return len(g.seats) == 0 })
}

// visit has a rank that is alone try the groups of ranks before it.
func (c *Comparer) visit(h *home, before []home) {
	r := h.seat.Rank
	tries := 0
	var tried []*Group
	for i := range before {
		to := &before[i]
		if to.group == h.group || slices.Contains(tried, to.group) || len(to.seat.Sites) != len(h.seat.Sites) {
			continue
		}
		if r.trial.group != nil && r.trial.group != to.group && slices.ContainsFunc(before, func(b home) bool { return b.group == r.trial.group }) {
			continue // a trial that is under way comes first
		}
		if tries++; tries > maxTries {
			return
		}
		tried = append(tried, to.group)
		o := c.work.align.observe(&h.seat, &to.seat)
		if ok, _ := (&standing{rank: r}).fits(to.group.member(to.seat.Rank), &h.seat, o); !ok {
			r.trial = trial{}
			continue
		}
		if r.trial.group != to.group {
			r.trial = trial{group: to.group}
		}
		if r.trial.add(&h.seat, &to.seat); r.trial.proven() {
			c.move(h, to.group)
			return
		}
		if r.trial.n < maxSamples {
			return // more steps may prove it
		}
		r.trial = trial{}
	}
}

// move has a rank change its group.
func (c *Comparer) move(h *home, to *Group) {
	r := h.seat.Rank
	h.group.leave(r)
	h.group.seats = h.group.seats[:0]
	r.home, r.trial, h.group = to, trial{}, to
	c.sit(to, h.seat)
}

// add takes the calls of a step.
func (t *trial) add(s, to *Seat) {
	n := float64(len(s.Sites))
	var mx, my float64
	for i := range s.Sites {
		mx += float64(int64(s.Call(i).Start - to.Call(i).Start))
		my += float64(int64(s.Call(i).Dur - to.Call(i).Dur))
	}
	mx, my = mx/n, my/n
	for i := range s.Sites {
		x := float64(int64(s.Call(i).Start-to.Call(i).Start)) - mx
		y := float64(int64(s.Call(i).Dur-to.Call(i).Dur)) - my
		t.sxx, t.sxy, t.syy = t.sxx+x*x, t.sxy+x*y, t.syy+y*y
	}
	t.n += len(s.Sites)
}

// proven reports whether the two leave together.
func (t *trial) proven() bool {
	if t.n < minSamples {
		return false
	}
	if t.sxx < noVariation*float64(t.n) {
		return t.syy < noVariation*float64(t.n)
	}
	return t.sxy <= steepest*t.sxx && t.sxy*t.sxy >= determined*t.sxx*t.syy
}
