package fakeshim

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/kernhes/kernhes/internal/krec"
)

// Laps are the frames of a recording that goes on, again and again: times, correlation ids and the seq= of ranges ascend, and
// graphs were captured in the first lap. Each lap's last records come at its end. change, if it is not nil, may change a
// lap's recording, which is its own.
func Laps(r *krec.Recording, o Options, laps int, change func(lap int, r *krec.Recording)) [][]byte {
	o = o.filled(r)
	s := newShim()
	s.hello(r, o)
	s.Base()
	by := strideOf(r)
	for lap := range laps {
		one := r.Clone()
		if lap > 0 {
			one = by.again(one, lap)
		}
		if change != nil {
			change(lap, one)
		}
		s.play(one, o)
	}
	s.Bye()
	return s.frames
}

// A stride is what a lap adds.
type stride struct {
	time        uint64 // ns
	correlation uint32
	seq         int
}

var seqText = regexp.MustCompile(`\bseq=(\d+)`)

func strideOf(r *krec.Recording) stride {
	var s stride
	first, last := firstTime(r), uint64(0)
	for _, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			last = max(last, t)
		}
		switch f := f.(type) {
		case *krec.Launch:
			s.correlation = max(s.correlation, f.Correlation)
		case *krec.Push:
			if m := seqText.FindStringSubmatch(f.Text); m != nil {
				n, _ := strconv.Atoi(m[1])
				s.seq = max(s.seq, n+1)
			}
		case *krec.Raw:
			for _, one := range f.Records {
				s.correlation, last = max(s.correlation, one.Correlation()), max(last, one.End())
			}
		}
	}
	s.time = last - first + 1_000_000
	return s
}

// again makes a lap of a recording: without what happens once.
func (s stride) again(r *krec.Recording, lap int) *krec.Recording {
	time, correlation := s.time*uint64(lap), s.correlation*uint32(lap)
	captured := map[uint32]bool{}
	for _, f := range r.Frames {
		if f, ok := f.(*krec.Captured); ok {
			captured[f.Correlation] = true
		}
	}
	r.Frames = slices.DeleteFunc(r.Frames, func(f krec.Frame) bool {
		switch f := f.(type) {
		case *krec.NodeCreated, *krec.NodeCloned, *krec.Captured, *krec.Domain, *krec.Schema, *krec.Clocks, *krec.Dropped:
			return true
		case *krec.Launch:
			return captured[f.Correlation]
		}
		return false
	})
	for _, f := range r.Frames {
		switch f := f.(type) {
		case *krec.Push:
			f.Time += time
			if m := seqText.FindStringSubmatchIndex(f.Text); m != nil {
				n, _ := strconv.Atoi(f.Text[m[2]:m[3]])
				f.Text = f.Text[:m[2]] + strconv.Itoa(n+lap*s.seq) + f.Text[m[3]:]
			}
		case *krec.Pop:
			f.Time += time
		case *krec.Launch:
			f.Time += time
			f.Correlation += correlation
		case *krec.Raw:
			for _, one := range f.Records {
				one.SetStart(one.Start() + time)
				one.SetEnd(one.End() + time)
				one.SetCorrelation(one.Correlation() + correlation)
			}
		}
	}
	return r
}
