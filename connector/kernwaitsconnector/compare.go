package kernwaitsconnector

import (
	"time"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/behaviour"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/cause"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/diverge"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/ledger"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/digest"
)

// Bounds of what is kept of a run.
const (
	maxDivergences = 64 // calls in which ranks differ, as label sets
	maxRecent      = 64 // differences that the status lists
	maxBuilders    = 1 << 16
)

// A comparison is everything that chunks are turned into. It is not safe for concurrent use.
//
//	chunk ──digest──▶ steps ──pairing──▶ meetings ──cause──▶ ledger
//	                                └──▶ steps of a group ──diverge──▶ differences
//	      ──behaviour──▶ positions that meet
type comparison struct {
	config   *Config
	shapes   *digest.Shapes
	builders map[builderKey]*digest.Builder
	pairing  *pairing.Comparer
	causes   *cause.Teller
	runs     map[*pairing.Run]*runState
	steps    uint64
	tooMany  uint64 // chunks of ranks beyond the limit
}

// A builderKey names one device of a session.
type builderKey struct {
	run     string
	rank    int64
	session uint64
	device  uint16
}

// A runState is what is counted of a run.
type runState struct {
	ledger  *ledger.Run
	finder  *diverge.Finder
	watcher *behaviour.Watcher
	unseen  map[unseenKey]uint64 // ns
	differ  map[differKey]uint64
	recent  []diverge.Found // newest last
}

// An unseenKey is a label set of kern_behaviour_compute_seconds_total.
type unseenKey struct {
	rank    int64
	program string
}

// A differKey is a label set of kern_ranks_diverged_total.
type differKey struct {
	rank       int64
	call       string
	difference diverge.Difference
}

func newComparison(config *Config) *comparison {
	c := &comparison{config: config, shapes: digest.NewShapes(), builders: map[builderKey]*digest.Builder{}, causes: cause.New(cause.Standard), runs: map[*pairing.Run]*runState{}}
	c.pairing = pairing.New(pairing.Settings{Wait: config.WaitForRanks, MaxBytes: config.MaxMemoryMiB << 20}, c)
	return c
}

// chunk takes a chunk of one rank.
func (c *comparison) chunk(from *chunk.Chunk, now time.Time) {
	defer c.shapes.Forget()
	var rank *pairing.Rank
	builder := c.builder(builderKey{from.Run, from.Rank, from.Session, from.Device})
	for i := range from.Steps {
		step := builder.Add(&from.Steps[i])
		if step == nil {
			continue
		}
		if rank == nil {
			if rank = c.rank(&from.Identity, now); rank == nil {
				return
			}
		}
		c.steps++
		c.watch(rank, &from.Steps[i], now)
		c.pairing.Add(rank, step, now)
	}
	if sums := builder.TakeSums(); rank != nil {
		c.run(rank.Run).ledger.Families(rank.ID, sums)
	}
}

// rank is the rank that a chunk is of; nil: there are too many, and its steps are counted only.
func (c *comparison) rank(id *chunk.Identity, now time.Time) *pairing.Rank {
	r := c.pairing.Rank(pairing.Source{Run: id.Run, Host: id.Host, Model: id.Model, Rank: id.Rank}, now)
	if r == nil {
		c.tooMany++
	}
	return r
}

// digest takes the digest of a chunk, which another collector made.
func (c *comparison) digest(from *digest.Record, now time.Time) {
	if len(from.Steps) == 0 {
		return
	}
	rank := c.rank(&from.Identity, now)
	if rank == nil {
		return
	}
	c.run(rank.Run).ledger.Families(rank.ID, from.Sums)
	for _, step := range from.Steps {
		c.steps++
		c.pairing.Add(rank, step, now)
	}
}

// watch takes the times of a whole step.
func (c *comparison) watch(r *pairing.Rank, s *chunk.Step, now time.Time) {
	if !c.config.Behaviour.Enabled || !s.Complete || !s.Pairs || s.Shape == nil || s.Offset > 0 || !s.Last {
		return
	}
	run, shape := c.run(r.Run), c.shapes.Of(s.Shape)
	run.watcher.Add(r.ID, s, shape, now)
	if known := run.watcher.Shapes()[shape.Work]; known != nil && len(known.Compute) > 0 {
		ns := uint64(0)
		for _, i := range known.Compute {
			ns += s.Durs[i]
		}
		key := unseenKey{r.ID, s.Program}
		if _, ok := run.unseen[key]; !ok && len(run.unseen) >= c.config.MaxSeries {
			key.program = ledger.Other
		}
		run.unseen[key] += ns
	}
}

// meets gives the positions of a step that behave as meetings and count as compute.
func (c *comparison) meets(run string) func(*chunk.Step, *digest.Shape) []int32 {
	return func(s *chunk.Step, shape *digest.Shape) []int32 {
		for r, state := range c.runs {
			if r.Name == run {
				if known := state.watcher.Shapes()[shape.Work]; known != nil && s.Seq >= known.From {
					return known.Compute
				}
			}
		}
		return nil
	}
}

// builder is that of a device of a session.
func (c *comparison) builder(key builderKey) *digest.Builder {
	b := c.builders[key]
	if b == nil {
		if len(c.builders) >= maxBuilders {
			clear(c.builders) // a step that was open is incomplete
		}
		b = &digest.Builder{Shapes: c.shapes}
		if c.config.Behaviour.Override {
			b.Meets = c.meets(key.run)
		}
		c.builders[key] = b
	}
	return b
}

// tick settles what has waited long enough.
func (c *comparison) tick(now time.Time) {
	c.pairing.Tick(now)
	known := map[*pairing.Run]bool{}
	for _, r := range c.pairing.Runs() {
		known[r] = true
	}
	for r := range c.runs {
		if known[r] {
			continue
		}
		delete(c.runs, r)
		c.causes.Forget(r)
		for key := range c.builders {
			if key.run == r.Name {
				delete(c.builders, key)
			}
		}
	}
}

// run is what is counted of a run.
func (c *comparison) run(r *pairing.Run) *runState {
	s := c.runs[r]
	if s == nil {
		s = &runState{ledger: ledger.New(c.config.MaxSeries), finder: diverge.New(), watcher: behaviour.New(), unseen: map[unseenKey]uint64{},
			differ: map[differKey]uint64{}}
		c.runs[r] = s
	}
	return s
}

// Step takes a complete step.
func (c *comparison) Step(r *pairing.Rank, s *digest.Step) { c.causes.Step(r, s) }

// Together takes the steps of a group.
func (c *comparison) Together(g *pairing.Group, seats []pairing.Seat) {
	run := c.run(seats[0].Rank.Run)
	run.finder.Together(g, seats, run.found)
}

// found counts a difference.
func (r *runState) found(f diverge.Found) {
	if len(r.recent) == maxRecent {
		copy(r.recent, r.recent[1:])
		r.recent = r.recent[:maxRecent-1]
	}
	r.recent = append(r.recent, f)
	if f.Standing {
		return
	}
	key := differKey{f.Rank.ID, f.Call, f.Difference}
	if _, ok := r.differ[key]; !ok && len(r.differ) >= maxDivergences {
		key.call = ledger.Other
	}
	r.differ[key]++
}

// Meeting counts a meeting, with its waits by cause.
func (c *comparison) Meeting(m *pairing.Meeting) {
	l := c.run(m.Seats[0].Rank.Run).ledger
	l.Meeting(m)
	sums := l.Seats(m)
	c.causes.Meeting(m, func(seat int, why cause.Cause, wait uint64) {
		sums[seat].Wait[why] += wait
		sums[m.Last].Blame[why] += wait
	})
}

// counts are what is counted of a rank.
func (c *comparison) counts(r *pairing.Rank) *ledger.Rank { return c.run(r.Run).ledger.Rank(r.ID) }

// Calls counts calls.
func (c *comparison) Calls(r *pairing.Rank, o pairing.Outcome, n int) {
	c.counts(r).Calls[o] += uint64(n)
}

// Missing counts a step that a rank lacks.
func (c *comparison) Missing(r *pairing.Rank, why pairing.Reason) {
	c.counts(r).Missing[why]++
}

// Dropped counts a step that was not compared.
func (c *comparison) Dropped(r *pairing.Rank, why pairing.Reason) {
	c.counts(r).Dropped[why]++
}
