// Package pace turns pushes and pops of step ranges into their times, by the labels of their steps.
//
//	push ───▶ open ───pop───▶ ended ───next push of the thread───▶ interval, or arrival
//
// An engine that runs ahead returns after the launch: there a range is launch time, and what a step takes is the interval
// to the next push. An interval with a long gap between pop and push is no step's time: the engine waited for requests.
package pace

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/median"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
)

// Bounds of a Pace.
const (
	maxThreads = 4096 // that have pushed a step; beyond that those without an open one are forgotten
	maxLevels  = 64   // steps of a thread within one another; deeper ones have no interval
	maxOpen    = 4096 // open ranges
)

// A Key is the labels of a step's metrics.
type Key struct{ Program, Batch, KV string }

// A Series is the totals of one Key.
type Series struct {
	Key
	Pushed   uint64 // step ranges
	Arrivals uint64 // intervals with a longer gap than a step has

	Range    Times // from push to pop
	Interval Times // from push to push, arrivals left out
	Device   Times // on the device, by the engine's own measure
	gaps     gaps
}

// Times are a histogram of times.
type Times struct {
	NS     uint64 // sum
	Counts wall.Counts
	N      uint64
}

func (t *Times) add(ns uint64) {
	t.NS += ns
	t.N++
	t.Counts.Add(ns)
}

// An open is a step's range that is open.
type open struct {
	thread *thread
	level  int // from 0
	begun  uint64
	series *Series
}

// An ended is the last range that ended on a level of a thread.
type ended struct {
	begun, end uint64 // unix ns
	series     *Series
}

// A thread has pushed steps.
type thread struct {
	open int     // steps
	last []ended // by level; without a series: none
}

// A Pace is of one process. It is not safe for concurrent use.
type Pace struct {
	Overflowed uint64 // ranges that counted in no series of their own
	// Seat asks for the place of a further series among those of all processes; false: there is none. nil: there always is.
	Seat func() bool

	layout  *wall.Layout
	most    int // series
	series  map[Key]*Series
	threads map[uint32]*thread
	open    map[uint64]open // by id of the range
}

// New returns a Pace of at most so many series, with histograms of a layout; nil: the fixed one.
func New(layout *wall.Layout, most int) *Pace {
	return &Pace{layout: layout, most: most, series: map[Key]*Series{}, threads: map[uint32]*thread{}, open: map[uint64]open{}}
}

// Len is how many series there are.
func (p *Pace) Len() int { return len(p.series) }

// overflow is the key of what came when all others were taken.
var overflow = Key{"other", "other", "other"}

// of is the series of a key.
func (p *Pace) of(key Key) *Series {
	switch {
	case p.series[key] != nil || key == overflow:
	case len(p.series) >= p.most:
		key = overflow
		p.Overflowed++
	case p.Seat != nil && !p.Seat():
		key = overflow
	}
	s := p.series[key]
	if s == nil {
		s = &Series{Key: key}
		for _, t := range []*Times{&s.Range, &s.Interval, &s.Device} {
			t.Counts.Layout = p.layout
		}
		p.series[key] = s
	}
	return s
}

// Count takes a step that has no range.
func (p *Pace) Count(key Key) { p.of(key).Pushed++ }

// Push takes a step's range that was pushed on a thread, unix ns, and returns how many steps are open there with it.
func (p *Pace) Push(id uint64, tid uint32, key Key, time uint64) (level uint32) {
	s := p.of(key)
	s.Pushed++
	t := p.thread(tid)
	at := t.open
	if at < maxLevels {
		if at < len(t.last) && t.last[at].series != nil {
			t.last[at].next(time)
		}
		t.last = t.last[:min(at, len(t.last))] // and what ended within the step before
	}
	if len(p.open) < maxOpen {
		t.open++
		p.open[id] = open{t, at, time, s}
	}
	return uint32(at) + 1
}

// Pop takes the end of a step's range, unix ns; 0: it was not seen.
func (p *Pace) Pop(id, time uint64) {
	o, ok := p.open[id]
	if !ok {
		return
	}
	delete(p.open, id)
	o.thread.open = max(o.thread.open-1, 0)
	if o.begun == 0 || time < o.begun { // not seen, or a clock that was set back
		return
	}
	o.series.Range.add(time - o.begun)
	if o.level >= maxLevels {
		return
	}
	for len(o.thread.last) <= o.level {
		o.thread.last = append(o.thread.last, ended{})
	}
	o.thread.last[o.level] = ended{o.begun, time, o.series}
}

// Broken says that events are missing: no interval goes over this moment.
func (p *Pace) Broken() {
	for _, t := range p.threads {
		t.last = t.last[:0]
	}
}

// Finish says that no more comes.
func (p *Pace) Finish() {
	for _, s := range p.series {
		s.settle(1)
	}
}

// Measured takes the time of a step on the device, ns.
func (p *Pace) Measured(key Key, ns uint64) { p.of(key).Device.add(ns) }

// Series copies all totals, in no order.
func (p *Pace) Series() (all []Series) {
	for _, s := range p.series {
		one := *s
		one.gaps = gaps{}
		for _, t := range []*Times{&one.Range, &one.Interval, &one.Device} {
			t.Counts = t.Counts.Clone()
		}
		all = append(all, one)
	}
	return all
}

// thread is a thread's state, made if need be.
func (p *Pace) thread(id uint32) *thread {
	t := p.threads[id]
	if t == nil {
		if len(p.threads) >= maxThreads {
			for other, is := range p.threads {
				if is.open == 0 {
					delete(p.threads, other)
				}
			}
		}
		t = &thread{}
		p.threads[id] = t
	}
	return t
}

// next takes the next push after a range that ended.
func (e *ended) next(time uint64) {
	if time < e.end {
		return
	}
	e.series.gaps.waiting = append(e.series.gaps.waiting, gap{time - e.end, time - e.begun})
	e.series.gaps.known.Add(time - e.end)
	e.series.settle(enough)
}

// enough is how many gaps of a series must be known before one is classed.
const enough = 8

// A gap is between a range and the next one.
type gap struct{ ns, interval uint64 }

// gaps are those of a series that are not classed, and what they are classed by.
type gaps struct {
	waiting []gap
	known   median.Running
}

// settle classes the intervals that wait, if so many gaps are known: one is a step's if its gap is at most twice the median.
func (s *Series) settle(least int) {
	if s.gaps.known.Seen() < least {
		return
	}
	for _, g := range s.gaps.waiting {
		if g.ns <= 2*s.gaps.known.Middle() {
			s.Interval.add(g.interval)
		} else {
			s.Arrivals++
		}
	}
	s.gaps.waiting = s.gaps.waiting[:0]
}
