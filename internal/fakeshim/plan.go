package fakeshim

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/kernhes/kernhes/internal/krec"
)

const (
	flushPeriod = 100_000_000   // ns
	latest      = 1_000_000_000 // ns that reordering delays a kernel at most
	slack       = 100_000       // ns: a kernel may seem to start that much before its launch
)

// A record is an activity record on its way.
type record struct {
	krec.Record
	name string // of a kernel
	raw  int    // frame of its buffer: it goes no earlier where position counts
	due  uint64 // unix ns: nor before that
}

// A delivery is what is sent at a time.
type delivery struct {
	at      uint64
	records []record
}

// deliveries hand out all records of a recording, each once.
type deliveries struct {
	waiting []record // in file order
	end     uint64   // of the last record
	flush   uint64   // time of the next flush
	rng     *rand.Rand
}

// plan says when each record is due: in flush mode when it has ended and its launch has been told, else where its buffer
// stands. Reordering adds to that for kernels with a launch: it is outstanding so long, which holds back the watermark.
func plan(r *krec.Recording, o Options) *deliveries {
	d := &deliveries{flush: firstTime(r) + flushPeriod}
	if o.Reorder != 0 {
		d.rng = rand.New(rand.NewPCG(o.Reorder, 3))
	}
	names, launches := map[uint64]string{}, map[uint32][]uint64{}
	var now uint64
	for i, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			now = t
		}
		switch f := f.(type) {
		case *krec.Name:
			names[f.Pointer] = f.Text
		case *krec.Launch:
			launches[f.Correlation] = append(launches[f.Correlation], f.Time)
		case *krec.Raw:
			for _, one := range f.Records {
				launch := launchOf(one, launches[one.Correlation()])
				w := record{Record: one, raw: i, due: now}
				if o.Deliver == Flush {
					w.due = max(one.End(), launch)
				}
				if one.Kind() == krec.KindKernel {
					w.name = names[one.Name()]
					if d.rng != nil && launch > 0 {
						w.due += d.rng.Uint64N(latest)
					}
				}
				d.waiting = append(d.waiting, w)
				d.end = max(d.end, one.End())
			}
		}
	}
	return d
}

// launchOf is when the launch of a record was entered; 0 if there was none.
func launchOf(r krec.Record, times []uint64) uint64 {
	for _, t := range slices.Backward(times) {
		if r.Start() == 0 || r.Start()+slack >= t {
			return t
		}
	}
	return 0
}

// more says whether there is a flush before an event of time t.
func (d *deliveries) more(t uint64) bool { return d.flush < t }

// next is the next flush.
func (d *deliveries) next() delivery {
	at := d.flush
	d.flush += flushPeriod
	return d.take(at, math.MaxInt)
}

// at is what goes with the buffer that is frame i.
func (d *deliveries) at(i int, now uint64) delivery { return d.take(now, i) }

// last is everything that still waits; it ends with the last record, or now if that is later.
func (d *deliveries) last(now uint64) delivery {
	at := max(now, d.end)
	for i := range d.waiting {
		d.waiting[i].due = at
	}
	return d.take(at, math.MaxInt)
}

// take takes the records of buffers up to frame raw that are due.
func (d *deliveries) take(at uint64, raw int) delivery {
	out := delivery{at: at}
	// Those of later buffers are the rest of waiting, and stay where they are; of the others, those not due move up to them.
	begin := sort.Search(len(d.waiting), func(i int) bool { return d.waiting[i].raw > raw })
	for i := begin - 1; i >= 0; i-- {
		if d.waiting[i].due <= at {
			out.records = append(out.records, d.waiting[i])
			continue
		}
		begin--
		d.waiting[begin] = d.waiting[i]
	}
	d.waiting = d.waiting[begin:]
	slices.Reverse(out.records) // in file order
	if d.rng != nil {
		d.rng.Shuffle(len(out.records), func(i, k int) { out.records[i], out.records[k] = out.records[k], out.records[i] })
	}
	return out
}

// devices are those that records name, ascending.
func devices(r *krec.Recording) []uint32 {
	seen := map[uint32]bool{}
	for _, f := range r.Frames {
		if raw, ok := f.(*krec.Raw); ok {
			for _, one := range raw.Records {
				seen[one.Device()] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), cmp.Compare[uint32])
}
