package engine

import (
	"cmp"
	"maps"
	"slices"
)

// A Place is where steps are pushed: the shim holds an engine there when a window of tracing begins or ends.
type Place struct {
	Domain uint32 // of NVTX
	Thread uint32 // 0: any
	Depth  uint32 // of the thread's stack in the domain, the step's range counted
}

// A PlaceReport is a place with the name of its domain.
type PlaceReport struct {
	Place
	Name string
}

// placeReports are the places for people.
func (p *Process) placeReports() (all []PlaceReport) {
	for _, one := range p.places.all {
		all = append(all, PlaceReport{one, p.ranges.DomainName(one.Domain)})
	}
	return all
}

// Bounds of places.
const (
	samePlace   = 3    // steps in a row at one place, before it is a thread's
	maxPlaces   = 32   // that the shim knows
	maxPushers  = 1024 // threads that are watched
	someThreads = 4    // at one place; if there are more, it is any thread's
)

// A pusher is a thread that pushes steps.
type pusher struct {
	at    Place // of the last step, with thread 0
	row   int   // steps in a row there
	place Place // depth 0: none yet
}

// places are where the threads of a process push their steps.
type places struct {
	threads map[uint32]*pusher
	all     []Place // never changed in place
	version int     // grows when all changes
}

// pushed takes the push of a step that lies in no other.
func (p *places) pushed(thread, domain, depth uint32) {
	if depth == 0 || depth == 0xffffffff {
		return // the thread does not count its ranges: where that is is not known
	}
	t := p.threads[thread]
	if t == nil {
		if p.threads == nil || len(p.threads) >= maxPushers {
			p.threads = map[uint32]*pusher{}
		}
		t = &pusher{}
		p.threads[thread] = t
	}
	at := Place{Domain: domain, Depth: depth}
	if t.at != at {
		t.at, t.row = at, 0
	}
	if t.row++; t.row == samePlace && t.place != at {
		t.place = at
		p.settle()
	}
}

// settle works out all places anew.
func (p *places) settle() {
	threads := map[Place][]uint32{}
	for id, t := range p.threads {
		if t.place.Depth > 0 {
			threads[t.place] = append(threads[t.place], id)
		}
	}
	var all []Place
	for _, at := range slices.SortedFunc(maps.Keys(threads), comparePlaces) {
		if len(threads[at]) > someThreads {
			all = append(all, at)
			continue
		}
		for _, id := range slices.Sorted(slices.Values(threads[at])) {
			all = append(all, Place{at.Domain, id, at.Depth})
		}
	}
	all = all[:min(len(all), maxPlaces)]
	if !slices.Equal(all, p.all) {
		p.all = all
		p.version++
	}
}

func comparePlaces(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Depth, b.Depth), cmp.Compare(a.Thread, b.Thread))
}

// Places are where steps are pushed, and how often that has changed.
func (p *Process) Places() (all []Place, version int) { return p.places.all, p.places.version }
