package windows

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Orders are given ahead, so that all ranks have them in time.
const (
	ahead       = 2 * time.Second
	closerAhead = 500 * time.Millisecond
)

// Looking closer has a budget of its own: a share of that of windows, saved up to what two windows cost.
const (
	closerShare  = 0.2
	closerLength = 2 * time.Second
	closerSaved  = 2
)

// forgetAfter is how long a run without a rank is remembered.
const forgetAfter = 10 * time.Minute

// A Rank is a live process in the mode windows.
type Rank struct {
	Session uint64
	Run     string
	Ready   bool          // it is connected, and its shim can leave CUPTI
	Windows uint64        // that it has had
	Left    uint64        // that it may still open; 0 if Windows is: not known
	Held    time.Duration // for which edges have held it
}

// ByTheClock is why a window opens that no request asked for.
const ByTheClock = "by the clock"

// An Order is a window of some processes.
type Order struct {
	ID         uint64
	Run        string
	Sessions   []uint64
	Start, End time.Time
	Why        string
}

// A Controller decides on the windows of all runs. It is safe for concurrent use.
type Controller struct {
	set Settings

	mu   sync.Mutex
	runs map[string]*run
	id   uint64
}

// A run is what is known of one.
type run struct {
	cost    cost
	plan    plan
	watches map[watchKey]*watch
	alarm   *alarm  // that no window was opened for yet
	saved   float64 // seconds of engine time that looking closer may cost
	ordered Order   // the last one
	ranks   map[uint64]Rank
	seen    time.Time // when it last had a step or a rank
	ticked  time.Time
	closer  uint64 // windows that were opened to look closer
	turned  uint64 // alarms for which there was no budget
}

type watchKey struct {
	session uint64
	program string
}

// New returns a Controller. id is below all ids of its orders: a collector that starts anew must not use those of the one before.
func New(set Settings, id uint64) *Controller {
	return &Controller{set: set, id: id, runs: map[string]*run{}}
}

// of is a run.
func (c *Controller) of(name string) *run {
	r := c.runs[name]
	if r == nil {
		r = &run{watches: map[watchKey]*watch{}, ranks: map[uint64]Rank{}}
		r.saved = closerSaved * r.closerCost()
		c.runs[name] = r
	}
	return r
}

// maxWatches bounds the programs that are watched in a run.
const maxWatches = 4096

// Take takes a step.
func (c *Controller) Take(s Step) {
	if s.Cut || s.Took <= 0 || s.Run == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.of(s.Run)
	r.seen = s.At
	if !s.Device {
		r.cost.step(&s)
	}
	if s.Traced || !c.set.Closer {
		return
	}
	key := watchKey{s.Session, s.Bucket.Program}
	w := r.watches[key]
	if w == nil {
		if len(r.watches) >= maxWatches {
			return
		}
		w = &watch{}
		r.watches[key] = w
	}
	if a, ok := w.step(&s); ok && r.alarm == nil {
		r.alarm = &a
	}
}

// Tick takes the live processes in the mode windows, and returns the windows that are to be ordered now.
func (c *Controller) Tick(now time.Time, ranks []Rank) (orders []Order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	live := map[string][]Rank{}
	for _, one := range ranks {
		live[one.Run] = append(live[one.Run], one)
	}
	for _, name := range slices.Sorted(maps.Keys(live)) {
		r := c.of(name)
		r.note(now, live[name])
		if o, ok := c.decide(now, name, r, live[name]); ok {
			orders = append(orders, o)
		}
	}
	maps.DeleteFunc(c.runs, func(name string, r *run) bool { return live[name] == nil && now.Sub(r.seen) > forgetAfter })
	return orders
}

// note takes what ranks say of their holds, and lets the budget of looking closer grow.
func (r *run) note(now time.Time, ranks []Rank) {
	for _, one := range ranks {
		if before, known := r.ranks[one.Session]; known && one.Windows > before.Windows && one.Held >= before.Held {
			r.cost.hold(now, one.Windows-before.Windows, one.Held-before.Held)
		}
		r.ranks[one.Session] = one
	}
	maps.DeleteFunc(r.ranks, func(session uint64, _ Rank) bool {
		return !slices.ContainsFunc(ranks, func(one Rank) bool { return one.Session == session })
	})
	maps.DeleteFunc(r.watches, func(key watchKey, _ *watch) bool { _, live := r.ranks[key.session]; return !live })
}

// closerCost is what a window costs that is opened to look closer, in seconds of engine time.
func (r *run) closerCost() float64 {
	cost := r.cost.sum()
	return closerLength.Seconds()*cost.Slowdown + cost.Held.Seconds()
}

// decide is the window of a run that is to be ordered now; false: none.
func (c *Controller) decide(now time.Time, name string, r *run, ranks []Rank) (Order, bool) {
	if !r.ticked.IsZero() && now.After(r.ticked) {
		r.saved = min(r.saved+closerShare*c.set.Budget*now.Sub(r.ticked).Seconds(), closerSaved*r.closerCost())
	}
	r.seen, r.ticked = now, now
	if now.Before(r.ordered.End) {
		return Order{}, false
	}
	if a := r.alarm; a != nil {
		r.alarm = nil
		if cost := r.closerCost(); cost <= r.saved*1.000001 {
			r.saved -= cost
			r.closer++
			start := now.Add(closerAhead)
			return c.order(name, r, ranks, start, start.Add(closerLength), a.String()), true
		}
		r.turned++
	}
	if c.set.Every <= 0 {
		return Order{}, false
	}
	cost := r.cost.sum()
	p := c.set.planned(cost.Slowdown, cost.Held, r.plan)
	apart := p.apart
	for _, one := range ranks {
		if one.Windows+one.Left > 0 {
			apart = max(apart, spaced(one.Left))
		}
	}
	start := c.set.next(now, apart)
	if start.Sub(now) > ahead || !start.After(r.ordered.Start) {
		return Order{}, false
	}
	r.plan = p
	return c.order(name, r, ranks, start, start.Add(p.length), ByTheClock), true
}

// order makes an order to all ranks that can take one.
func (c *Controller) order(name string, r *run, ranks []Rank, start, end time.Time, why string) Order {
	c.id++
	o := Order{ID: c.id, Run: name, Start: start, End: end, Why: why}
	for _, one := range ranks {
		if one.Ready {
			o.Sessions = append(o.Sessions, one.Session)
		}
	}
	r.ordered = o
	return o
}

// Open orders a window of a run now, for someone who asks. If one is open or ordered, it is that one, made longer if need be.
func (c *Controller) Open(now time.Time, name string, ranks []Rank, length time.Duration, why string) (o Order, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.of(name)
	r.seen = now
	if o := r.ordered; now.Before(o.End) && !o.Start.After(now.Add(closerAhead)) {
		if end := now.Add(length); end.After(o.End) {
			r.ordered.End = end
			return r.ordered, true
		}
		return o, false
	}
	start := now.Add(closerAhead)
	return c.order(name, r, ranks, start, start.Add(length), why), true
}

// A State is how the windows of a run stand.
type State struct {
	Cost   Cost
	Last   Order  // the last order; no id: none was given
	Closer uint64 // windows that were opened since a rank became slower
	Turned uint64 // times that one would have been, but for the budget
}

// State is that of a run.
func (c *Controller) State(name string) State {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runs[name]
	if r == nil {
		return State{Cost: Cost{Slowdown: firstSlowdown}}
	}
	return State{Cost: r.cost.sum(), Last: r.ordered, Closer: r.closer, Turned: r.turned}
}

func (o *Order) String() string {
	return fmt.Sprintf("window %d of run %s: %s", o.ID, o.Run, o.Why)
}
