package span

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestASpanKeepsTimesAndClass(t *testing.T) {
	for _, end := range []uint64{0, 7, 1_790_000_000_000_000_000, Limit - 1} {
		for c, name := range map[Class]string{Compute: "compute", Comm: "comm", Copy: "copy", Spin: "spin"} {
			s := Make(5, end, c)
			if s.Start != 5 || s.End() != end || s.Class() != c || s.Class().String() != name {
				t.Errorf("Make(5, %d, %s) = %d, %d, %s", end, name, s.Start, s.End(), s.Class())
			}
		}
	}
	if ByNames[ByDefault] != "default" || ByNames[ByRule] != "rule" || ByNames[ByManifest] != "manifest" {
		t.Errorf("names %v", ByNames)
	}
}

func TestSortedAndSort(t *testing.T) {
	at := func(starts ...uint64) (all []Span) {
		for _, s := range starts {
			all = append(all, Make(s, s+1, Compute))
		}
		return all
	}
	for _, c := range []struct {
		starts []uint64
		want   bool
	}{{nil, true}, {[]uint64{3}, true}, {[]uint64{3, 3, 4}, true}, {[]uint64{4, 3}, false}, {[]uint64{1, 2, 1}, false}} {
		spans := at(c.starts...)
		if got := Sorted(spans); got != c.want {
			t.Errorf("Sorted(%v) = %v", c.starts, got)
		}
		Sort(spans)
		if slices.Sort(c.starts); !slices.Equal(spans, at(c.starts...)) {
			t.Errorf("Sort gives %v, want starts %v", spans, c.starts)
		}
	}
}

func TestExtents(t *testing.T) {
	of := func(spans ...Span) (e Extent) {
		for _, s := range spans {
			e.Add(s)
		}
		return e
	}
	for name, c := range map[string]struct{ got, want Extent }{
		"none":             {of(), Extent{}},
		"one":              {of(Make(5, 9, Comm)), Extent{First: 5, Latest: 5, End: 9}},
		"in order":         {of(Make(5, 30, Compute), Make(6, 9, Comm)), Extent{First: 5, Latest: 6, End: 30, Compute: true}},
		"at the same time": {of(Make(5, 6, Comm), Make(5, 9, Comm)), Extent{First: 5, Latest: 5, End: 9}},
		"not in order":     {of(Make(6, 9, Comm), Make(5, 7, Copy)), Extent{First: 5, Latest: 6, End: 9, Disorder: true}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
	a, b := of(Make(5, 30, Comm), Make(8, 9, Comm)), of(Make(8, 20, Compute), Make(9, 10, Comm))
	join := func(what string, one, next, want Extent) {
		t.Helper()
		if one.Join(next); one != want {
			t.Errorf("%s: %+v, want %+v", what, one, want)
		}
	}
	join("nothing before", Extent{}, a, a)
	join("what comes after", a, b, Extent{First: 5, Latest: 9, End: 30, Compute: true})
	join("what came before", b, a, Extent{First: 5, Latest: 9, End: 30, Compute: true, Disorder: true})
	join("what begins before the last", of(Make(5, 6, Comm), Make(9, 10, Comm)), b, Extent{First: 5, Latest: 9, End: 20, Compute: true, Disorder: true})
	join("disorder before", of(Make(5, 6, Comm), Make(4, 6, Comm)), b, Extent{First: 4, Latest: 9, End: 20, Compute: true, Disorder: true})
	join("disorder after", a, of(Make(9, 10, Comm), Make(8, 9, Comm)), Extent{First: 5, Latest: 9, End: 30, Disorder: true})
}

func TestACover(t *testing.T) {
	var c Cover
	check := func(start, end, sum, upTo uint64) {
		t.Helper()
		if c.Add(start, end); c.Sum != sum || c.End != upTo {
			t.Errorf("after %d to %d: %+v, want %d up to %d", start, end, c, sum, upTo)
		}
	}
	check(10, 20, 10, 20)
	check(12, 18, 10, 20) // within
	check(15, 20, 10, 20) // ends with it
	check(20, 25, 15, 25) // goes on
	check(24, 30, 20, 30)
	check(40, 41, 21, 41)
	for at, want := range map[uint64]uint64{41: 21, 100: 21, 40: 20} {
		if got := c.At(at); got != want {
			t.Errorf("At(%d) = %d, want %d", at, got, want)
		}
	}
}

// A bitmap has the classes that run in each ns of a short time.
type bitmap [80][4]bool

func (b *bitmap) add(s Span) {
	for at := s.Start; at < s.End(); at++ {
		b[at][s.Class()] = true
	}
}

// count is how many ns before a time satisfy want.
func (b *bitmap) count(before uint64, want func(runs [4]bool) bool) (n uint64) {
	for _, runs := range b[:min(before, uint64(len(b)))] {
		if want(runs) {
			n++
		}
	}
	return n
}

// TestUnionsAgreeWithCountingEachNanosecond measures random spans, and looks at what was measured between any two of them.
func TestUnionsAgreeWithCountingEachNanosecond(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var spans []Span
		for range 1 + rng.IntN(12) {
			start := rng.Uint64N(60)
			spans = append(spans, Make(start, start+rng.Uint64N(15), Class(rng.IntN(4))))
		}
		Sort(spans)
		var u Union
		var b bitmap
		for i := range spans {
			u.Add(spans[i : i+1])
			b.add(spans[i])
			kernels := uint64(0) // end of the last one
			for _, s := range spans[:i+1] {
				if c := s.Class(); c == Compute || c == Comm {
					kernels = max(kernels, s.End())
				}
			}
			compute := func(r [4]bool) bool { return r[Compute] }
			comm := func(r [4]bool) bool { return r[Comm] }
			both := func(r [4]bool) bool { return r[Compute] || r[Comm] }
			any := func(r [4]bool) bool { return r[Compute] || r[Comm] || r[Copy] }
			// Before the start of the last span nothing is still to come; at the last kernel's end time is accounted up to.
			for _, at := range []uint64{spans[i].Start, kernels, 80} {
				if at < spans[i].Start && !(at == kernels && spans[i].Class() == Copy) {
					continue
				}
				for name, c := range map[string]struct{ got, want uint64 }{
					"compute": {u.Compute.At(at), b.count(at, compute)},
					"comm":    {u.Comm.At(at), b.count(at, comm)},
					"kernels": {u.Kernels.At(at), b.count(at, both)},
					"any":     {u.AnyAt(at), b.count(at, any)},
				} {
					if c.got != c.want {
						t.Fatalf("seed %d, %s before %d: %d, want %d: %v", seed, name, at, c.got, c.want, spans[:i+1])
					}
				}
			}
		}
	}
}

// TestSortOfWhatIsNearlyInOrder orders spans that are nearly in order, and such as are not, as the standard library does.
func TestSortOfWhatIsNearlyInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, late := range []uint64{0, 1, 30, 1000, 1 << 40} {
		for range 20 {
			var spans []Span
			for i := range uint64(r.IntN(500)) {
				spans = append(spans, Make(1<<44+i*10-r.Uint64N(late*10+1), 1<<45+i, Compute))
			}
			want := slices.Clone(spans)
			slices.SortStableFunc(want, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
			Sort(spans)
			if !slices.Equal(want, spans) {
				t.Errorf("%d spans, up to %d places late: not in order", len(spans), late)
			}
		}
	}
}
