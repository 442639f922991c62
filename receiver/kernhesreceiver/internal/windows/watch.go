package windows

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A step counts as high if it takes more than its like did: over riseLeast above their median, and over their 80th percentile. While
// nothing has changed that happens to at most 3 steps of 10. An alarm needs so many high ones among the last that a sum of
// logarithms of likelihoods (CUSUM), of 8 high ones of 10 against 3 of 10, passes alarmAt. Where steps are independent, the mean
// number of steps from one false alarm to the next is at least e^alarmAt, 3.6 × 10^9: more than a year at 100 steps a second. The
// rise must also last for riseTime.
const (
	riseLeast = 1.05
	highShare = 0.80
	alarmAt   = 22
	riseTime  = time.Second
	quietTime = time.Minute // after an alarm of a program on a rank nothing alarms there, while its past is learnt anew
)

var ifHigh, ifNot = math.Log(0.8 / 0.3), math.Log(0.2 / 0.7)

// The past of like steps: their last pastSteps, taken pastApart apart at least, and each only after it is pastDelay old, so that what
// becomes slow is not compared with itself.
const (
	pastSteps = 64
	pastLeast = 32 // before steps are compared
	pastApart = 250 * time.Millisecond
	pastDelay = 5 * time.Second
	maxPasts  = 256 // of a program on a rank
)

// A past is what like steps took.
type past struct {
	took    []float64 // seconds, a ring of the last ones
	next    int
	waiting []sample // that are too young
	last    time.Time
	used    time.Time

	median, limit float64 // of took; above limit a step is high
}

type sample struct {
	at   time.Time
	took float64
}

// add takes a step into the past, and lets those in that are old enough by now.
func (p *past) add(at time.Time, took float64) {
	p.used = at
	if at.Sub(p.last) >= pastApart {
		p.last = at
		p.waiting = append(p.waiting, sample{at, took})
	}
	n := 0
	for n < len(p.waiting) && at.Sub(p.waiting[n].at) >= pastDelay {
		if len(p.took) < pastSteps {
			p.took = append(p.took, p.waiting[n].took)
		} else {
			p.took[p.next%pastSteps] = p.waiting[n].took
		}
		p.next++
		n++
	}
	if n == 0 {
		return
	}
	p.waiting = slices.Delete(p.waiting, 0, n)
	sorted := slices.Sorted(slices.Values(p.took))
	p.median = sorted[len(sorted)/2]
	p.limit = max(p.median*riseLeast, sorted[int(highShare*float64(len(sorted)))])
}

// known reports whether steps can be compared with it.
func (p *past) known() bool { return len(p.took) >= pastLeast }

// A workKey is steps that are alike.
type workKey struct {
	bucket Bucket
	work   uint64
}

// A watch looks at the steps of one program on one rank.
type watch struct {
	pasts map[workKey]*past
	sum   float64   // CUSUM; 0: nothing points to a rise
	since time.Time // of the first step of the rise
	over  float64   // sum of the rises of its steps, as shares of the median
	steps float64   // of it
	last  time.Time
	quiet time.Time // nothing alarms before

	device bool // device time is known, so intervals do not count: they also have what the engine's host does
}

// An alarm is a program of a rank that became slower.
type alarm struct {
	rank    int64
	program string
	rise    float64 // as a share of its past
	device  bool
}

func (a *alarm) String() string {
	what := "the interval between steps"
	if a.device {
		what = "the device time of steps"
	}
	return fmt.Sprintf("%s of %s on rank %d rose by %.0f%%", what, a.program, a.rank, 100*a.rise)
}

// step takes a step that was not traced, and reports whether the program has become slower.
func (w *watch) step(s *Step) (a alarm, ok bool) {
	if w.pasts == nil {
		w.pasts = map[workKey]*past{}
	}
	if w.device = w.device || s.Device; w.device && !s.Device {
		return alarm{}, false
	}
	key := workKey{s.Bucket, s.Work}
	p := w.pasts[key]
	if p == nil {
		w.room()
		p = &past{}
		w.pasts[key] = p
	}
	took := s.Took.Seconds()
	if p.known() {
		w.compare(s.At, took, p)
	}
	p.add(s.At, took)
	if w.sum < alarmAt || s.At.Sub(w.since) < riseTime || s.At.Before(w.quiet) {
		return alarm{}, false
	}
	a = alarm{s.Rank, s.Bucket.Program, w.over / w.steps, s.Device}
	*w = watch{quiet: s.At.Add(quietTime), device: w.device}
	return a, true
}

// compare takes what a step took, with the past of its like.
func (w *watch) compare(at time.Time, took float64, p *past) {
	if at.Sub(w.last) > pastDelay {
		w.sum = 0
	}
	w.last = at
	if w.sum <= 0 {
		w.sum, w.since, w.over, w.steps = 0, at, 0, 0
	}
	if took > p.limit {
		w.sum = min(w.sum+ifHigh, 2*alarmAt)
	} else {
		w.sum += ifNot
	}
	w.over += min(took/p.median-1, 1)
	w.steps++
}

// room makes room for one more past: that goes which was used longest ago.
func (w *watch) room() {
	if len(w.pasts) < maxPasts {
		return
	}
	var oldest workKey
	var used time.Time
	for key, p := range w.pasts {
		if used.IsZero() || p.used.Before(used) {
			oldest, used = key, p.used
		}
	}
	delete(w.pasts, oldest)
}
