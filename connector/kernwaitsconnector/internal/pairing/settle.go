package pairing

import (
	"cmp"
	"slices"

	"github.com/kernhes/kernhes/internal/digest"
)

// A Group is ranks that communicate with each other.
type Group struct {
	Name     string // as the steps call it; empty: they do not say, so it is assumed
	members  []*standing
	seats    []Seat // in the seq that is settled
	matched  []Seat // of them, those that meet
	next     int    // meeting that is due
	compared int    // meetings so far
	loose    []bool // by meeting: its kind is not known, and its ranks do not leave together
}

// Label is the group's name as metrics have it.
func (g *Group) Label() string {
	if g.Name == "" {
		return "assumed"
	}
	return g.Name
}

// A seat is where a rank takes part in a group, of the seq that is settled.
type seat struct {
	group *Group
	index int // among matched
}

// settling is memory that each settling uses anew.
type settling struct {
	groups  []*Group
	absent  map[*Rank]Reason
	homes   []home
	align   aligning
	meeting Meeting
}

// settle compares the steps of one seq.
func (c *Comparer) settle(run *Run, g *gathering) {
	w := &c.work
	w.groups, w.homes = w.groups[:0], w.homes[:0]
	if w.absent == nil {
		w.absent = map[*Rank]Reason{}
	}
	clear(w.absent)
	for _, e := range g.steps {
		e.rank.seats = e.rank.seats[:0]
		if !e.step.Complete {
			c.sink.Calls(e.rank, Incomplete, len(e.step.Calls))
			w.absent[e.rank] = IncompleteStep
			continue
		}
		c.sink.Step(e.rank, e.step)
		c.takeSeats(run, e)
	}
	c.findHomes()
	slices.SortFunc(w.groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.seats[0].Rank.ID, b.seats[0].Rank.ID))
	})
	for _, group := range w.groups {
		c.judge(group)
	}
	c.emit(g.seq)
	for _, group := range w.groups {
		group.seats, group.matched = group.seats[:0], group.matched[:0]
	}
}

// takeSeats puts a rank's calls into their groups.
func (c *Comparer) takeSeats(run *Run, e entry) {
	loose := len(e.step.Calls)
	for i := range e.step.Shape.Groups {
		of := &e.step.Shape.Groups[i]
		loose -= len(of.Sites)
		s := Seat{e.rank, e.step, of.Sites}
		if g := run.group(of.Name); g == nil {
			c.work.homes = append(c.work.homes, home{seat: s})
		} else {
			c.sit(g, s)
		}
	}
	if loose > 0 {
		c.sink.Calls(e.rank, NotComparable, loose)
	}
}

// sit adds a seat to a group.
func (c *Comparer) sit(g *Group, s Seat) {
	if len(g.seats) == 0 {
		c.work.groups = append(c.work.groups, g)
	}
	g.seats = append(g.seats, s)
	g.member(s.Rank)
}

// group is the group of a name; nil: it is not known which.
func (r *Run) group(name string) *Group {
	g := r.groups[name]
	if g == nil && (name == "" || len(r.groups) >= maxGroups) {
		return nil
	}
	if g == nil {
		g = &Group{Name: name}
		r.groups[name] = g
	}
	return g
}

// judge says what becomes of the calls of a group.
func (c *Comparer) judge(g *Group) {
	g.next, g.compared, g.loose = 0, 0, g.loose[:0]
	slices.SortFunc(g.seats, func(a, b Seat) int { return cmp.Compare(a.Rank.ID, b.Rank.ID) })
	c.sink.Together(g, g.seats)
	all := func(o Outcome, seats []Seat) {
		for i := range seats {
			c.sink.Calls(seats[i].Rank, o, len(seats[i].Sites))
		}
	}
	g.members = slices.DeleteFunc(g.members, func(m *standing) bool { return m.rank.Run.heard.Sub(m.rank.heard) > leaveAfter })
	if len(g.members) < 2 {
		all(Alone, g.seats)
		return
	}
	equal, other := byNumber(g.seats)
	all(Diverged, other)
	fits, misfits := c.work.align.align(g, equal)
	all(Unmatched, misfits)
	missing := len(fits) < len(g.members)
	for _, m := range g.members {
		if len(g.seats) < len(g.members) && c.lacks(g, m.rank) {
			why, ok := c.work.absent[m.rank]
			if !ok {
				why = Absent
			}
			c.sink.Missing(m.rank, why)
		}
	}
	if missing {
		all(MissingRank, fits)
		return
	}
	g.matched = append(g.matched[:0], fits...)
	c.work.align.findLoose(g)
	for i := range g.matched {
		r := g.matched[i].Rank
		r.seats = append(r.seats, seat{g, i})
	}
}

// lacks reports whether a rank has no seat in a group.
func (c *Comparer) lacks(g *Group, r *Rank) bool {
	_, ok := slices.BinarySearchFunc(g.seats, r.ID, func(s Seat, id int64) int { return cmp.Compare(s.Rank.ID, id) })
	return !ok
}

// byNumber divides seats into those that have the number of calls that most have, and the others. Of equally many, the number
// of the lowest rank counts.
func byNumber(seats []Seat) (equal, other []Seat) {
	number, most := 0, 0
	for i := range seats {
		n := 0
		for k := range seats {
			if len(seats[k].Sites) == len(seats[i].Sites) {
				n++
			}
		}
		if n > most {
			number, most = len(seats[i].Sites), n
		}
		if n == len(seats) {
			return seats, nil
		}
	}
	for i := range seats {
		if len(seats[i].Sites) == number {
			equal = append(equal, seats[i])
		} else {
			other = append(other, seats[i])
		}
	}
	return equal, other
}

// emit tells of all meetings, in an order in which each rank has them.
func (c *Comparer) emit(seq int64) {
	for moved := true; moved; {
		moved = false
		for _, g := range c.work.groups {
			for g.due() && c.isNext(g) {
				c.meet(g, seq)
				moved = true
			}
		}
		if !moved { // ranks have the meetings of two groups in different orders
			for _, g := range c.work.groups {
				if g.due() {
					c.meet(g, seq)
					moved = true
					break
				}
			}
		}
	}
}

func (g *Group) due() bool { return len(g.matched) > 0 && g.next < len(g.matched[0].Sites) }

// isNext reports whether each rank of a group has had all that it has before the next meeting.
func (c *Comparer) isNext(g *Group) bool {
	for i := range g.matched {
		s := &g.matched[i]
		site := s.Sites[g.next]
		for _, o := range s.Rank.seats {
			if o.group != g && o.group.due() && o.group.matched[o.index].Sites[o.group.next] < site {
				return false
			}
		}
	}
	return true
}

// meet tells of the next meeting of a group.
func (c *Comparer) meet(g *Group, seq int64) {
	n := g.next
	g.next++
	if len(g.loose) == 0 || !g.loose[n] {
		g.compared++
		m := &c.work.meeting
		*m = Meeting{Group: g, Seq: seq, Nth: n, Seats: g.matched, Shortest: g.matched[0].Call(n).Dur}
		for i := range m.Seats {
			if d := m.Seats[i].Call(n).Dur; d < m.Shortest {
				m.Shortest, m.Last = d, i
			}
		}
		c.sink.Meeting(m)
	}
	if g.due() {
		return
	}
	for i := range g.matched {
		c.sink.Calls(g.matched[i].Rank, Compared, g.compared)
		if rest := g.next - g.compared; rest > 0 {
			c.sink.Calls(g.matched[i].Rank, NotComparable, rest)
		}
	}
}

// kindOf is what a meeting is, as far as any of its ranks knows.
func kindOf(seats []Seat, n int) digest.Kind {
	for i := range seats {
		if k := seats[i].Site(n).Kind; k != digest.Unknown {
			return k
		}
	}
	return digest.Unknown
}

// Kind is what the meeting is.
func (m *Meeting) Kind() digest.Kind { return kindOf(m.Seats, m.Nth) }
