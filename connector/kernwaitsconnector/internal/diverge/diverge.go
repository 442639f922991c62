// Package diverge finds the rank of a group that does something else than the others, and the call where it begins.
package diverge

import (
	"slices"
	"strings"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/digest"
)

// A Difference is in what a rank differs.
type Difference uint8

// Differences.
const (
	Collectives Difference = iota // the communication calls of the group
	Graph                         // one replays a graph, the others launch kernel by kernel
	Shape                         // the kernels
)

// Names are the differences as metrics have them.
var Names = [...]string{Collectives: "collectives", Graph: "graph", Shape: "shape"}

// Bounds.
const (
	standing    = 64   // steps in a row that a difference counts; then it is how these ranks are
	maxStreaks  = 4096 // of a run
	maxClasses  = 64   // of steps of a group in one seq, whose ranks differ in program or batch
	maxCompared = 1024 // pairs of shapes that are remembered
)

// A Found is one step of a rank that differs.
type Found struct {
	Rank       *pairing.Rank
	Seq        int64
	Program    string
	Call       string
	Difference Difference
	Standing   bool // it has been so for long, and is not counted
}

// A Finder finds differences in one run.
type Finder struct {
	streaks  map[streakKey]*streak
	compared map[[2]*digest.Shape]difference
	classes  []class
	usual    map[usualKey]uint64     // the work that most ranks did last
	last     map[*pairing.Rank]int64 // the step that was found last: a rank of two groups differs once
}

type streakKey struct {
	rank    *pairing.Rank
	group   *pairing.Group
	program string
	tokens  int64
}

type streak struct {
	call string
	is   Difference
	n    int
}

type usualKey struct {
	group   *pairing.Group
	program string
	tokens  int64
}

type difference struct {
	is   Difference
	call string
}

// A class is steps that ought to be equal.
type class struct {
	first *pairing.Seat
	kinds []kind
}

// A kind is steps of a class that are equal.
type kind struct {
	seat  *pairing.Seat
	count int
}

// New returns a Finder.
func New() *Finder {
	return &Finder{streaks: map[streakKey]*streak{}, compared: map[[2]*digest.Shape]difference{}, usual: map[usualKey]uint64{},
		last: map[*pairing.Rank]int64{}}
}

// Together takes the steps of a group in one seq, and calls found for each that differs.
func (f *Finder) Together(g *pairing.Group, seats []pairing.Seat, found func(Found)) {
	f.classify(seats)
	for i := range f.classes {
		c := &f.classes[i]
		usual := f.usualOf(g, c)
		for k := range seats {
			if s := &seats[k]; alike(c.first.Step, s.Step) {
				f.judge(g, s, usual, found)
			}
		}
	}
	f.numbers(g, seats, found)
}

// classify divides the seats into classes and kinds.
func (f *Finder) classify(seats []pairing.Seat) {
	f.classes = f.classes[:0]
	for i := range seats {
		s := &seats[i]
		c := slices.IndexFunc(f.classes, func(c class) bool { return alike(c.first.Step, s.Step) })
		if c < 0 {
			if len(f.classes) == maxClasses {
				continue
			}
			c = len(f.classes)
			f.classes = append(f.classes, class{first: s})
		}
		at := &f.classes[c]
		if k := slices.IndexFunc(at.kinds, func(k kind) bool { return same(k.seat.Step, s.Step) }); k >= 0 {
			at.kinds[k].count++
		} else {
			at.kinds = append(at.kinds, kind{s, 1})
		}
	}
}

// alike reports whether two ranks ought to do the same: they run one program on equally many tokens. What is launched kernel by
// kernel depends on the contexts too.
func alike(a, b *digest.Step) bool {
	return a.Program == b.Program && a.Tokens == b.Tokens && (a.Graph && b.Graph || a.Seqs == b.Seqs && a.KV == b.KV)
}

// same reports whether two ranks did the same.
func same(a, b *digest.Step) bool {
	return a.Graph == b.Graph && (a.Shape == b.Shape || a.Shape.Work == b.Shape.Work)
}

// usualOf is what most of a class do. Of equally many, it is what most did before, or else what the lowest rank does.
func (f *Finder) usualOf(g *pairing.Group, c *class) *pairing.Seat {
	key := usualKey{g, c.first.Step.Program, c.first.Step.Tokens}
	before, known := f.usual[key]
	best := c.kinds[0]
	for _, k := range c.kinds[1:] {
		if k.count > best.count || k.count == best.count && known && k.seat.Step.Shape.Work == before {
			best = k
		}
	}
	if len(f.usual) >= maxStreaks {
		clear(f.usual)
	}
	f.usual[key] = best.seat.Step.Shape.Work
	return best.seat
}

// judge looks at one step of a class.
func (f *Finder) judge(g *pairing.Group, s, usual *pairing.Seat, found func(Found)) {
	key := streakKey{s.Rank, g, s.Step.Program, s.Step.Tokens}
	if same(s.Step, usual.Step) {
		delete(f.streaks, key)
		return
	}
	d := f.compare(usual.Step, s.Step)
	f.tell(key, s, d, found)
}

// tell counts a difference.
func (f *Finder) tell(key streakKey, s *pairing.Seat, d difference, found func(Found)) {
	if seq, ok := f.last[s.Rank]; ok && seq == s.Step.Seq {
		return
	}
	f.last[s.Rank] = s.Step.Seq
	at := f.streaks[key]
	if at == nil || at.call != d.call || at.is != d.is {
		if len(f.streaks) >= maxStreaks {
			clear(f.streaks)
		}
		at = &streak{call: d.call, is: d.is}
		f.streaks[key] = at
	}
	at.n++
	found(Found{Rank: s.Rank, Seq: s.Step.Seq, Program: s.Step.Program, Call: d.call, Difference: d.is, Standing: at.n > standing})
}

// compare says where a step differs from the usual one.
func (f *Finder) compare(usual, other *digest.Step) difference {
	key := [2]*digest.Shape{usual.Shape, other.Shape}
	d, ok := f.compared[key]
	if !ok {
		if len(f.compared) >= maxCompared {
			clear(f.compared)
		}
		d = compare(usual.Shape, other.Shape)
		f.compared[key] = d
	}
	if usual.Graph != other.Graph && d.is == Shape {
		d.is = Graph
	}
	return d
}

func compare(usual, other *digest.Shape) (d difference) {
	d.is = Shape
	if !slices.EqualFunc(usual.Sites, other.Sites, func(a, b digest.Site) bool { return a.Call == b.Call }) {
		d.is = Collectives
	}
	if usual.Positions == nil || other.Positions == nil {
		d.call = firstCall(len(usual.Sites), len(other.Sites), func(i int) (string, string) { return usual.Sites[i].Call, usual.Sites[i].Name },
			func(i int) (string, string) { return other.Sites[i].Call, other.Sites[i].Name })
		return d
	}
	d.call = firstCall(len(usual.Positions), len(other.Positions), func(i int) (string, string) { return usual.Positions[i].Call, usual.Positions[i].Name },
		func(i int) (string, string) { return other.Positions[i].Call, other.Positions[i].Name })
	return d
}

// firstCall is the first call that differs: the one that the other lacks, or has besides.
func firstCall(usual, other int, usualAt, otherAt func(int) (call, name string)) string {
	for i := range max(usual, other) {
		if i >= usual {
			call, _ := otherAt(i)
			return call
		}
		call, name := usualAt(i)
		if i >= other {
			return call
		}
		otherCall, otherName := otherAt(i)
		if call == otherCall && name == otherName {
			continue
		}
		for k := range usual {
			if c, _ := usualAt(k); c == otherCall {
				return call // it goes on with a call that the usual has too: it lacks this one
			}
		}
		return otherCall
	}
	return ""
}

// numbers finds ranks of other programs whose calls are not as many as those of most.
func (f *Finder) numbers(g *pairing.Group, seats []pairing.Seat, found func(Found)) {
	if len(f.classes) < 2 {
		return // of one class, judge has seen it
	}
	counts := map[int]int{}
	for i := range seats {
		counts[len(seats[i].Sites)]++
	}
	if len(counts) < 2 {
		return
	}
	var usual *pairing.Seat
	for i := range seats {
		if s := &seats[i]; usual == nil || counts[len(s.Sites)] > counts[len(usual.Sites)] {
			usual = s
		}
	}
	for i := range seats {
		s := &seats[i]
		if len(s.Sites) == len(usual.Sites) || alike(s.Step, usual.Step) {
			continue
		}
		d := difference{is: Collectives}
		n := 0
		for n < min(len(s.Sites), len(usual.Sites)) && tail(s.Site(n).Call) == tail(usual.Site(n).Call) {
			n++
		}
		switch {
		case n < len(usual.Sites):
			d.call = usual.Site(n).Call
		default:
			d.call = s.Site(n).Call
		}
		f.tell(streakKey{s.Rank, g, "\x00" + s.Step.Program, s.Step.Tokens}, s, d, found)
	}
}

// tail is a label without its first word, which names the program in some engines.
func tail(call string) string {
	_, rest, ok := strings.Cut(call, ".")
	if !ok {
		return call
	}
	return rest
}
