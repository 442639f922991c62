package oracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernhes/kernhes/internal/krec"
)

// Figures are one device's, as NAME.expect.json has them, and a few that it has not. Times are in ns; no sum has an
// invalid record.
type Figures struct {
	Device  uint32         `json:"-"`
	Kernels int            `json:"kernels"` // without invalid ones
	Copies  map[string]int `json:"copies"`  // by "memset" or "copy kind N"
	Counts
	First         int64            `json:"first_ns"`
	Last          int64            `json:"last_ns"`
	Compute       int64            `json:"compute_ns"` // union of compute kernels
	Comm          int64            `json:"comm_ns"`    // what comm kernels add to that
	Overlap       int64            `json:"overlap_ns"` // union of comm kernels that lies under compute
	Idle          int64            `json:"idle_ns"`
	CommKernels   int              `json:"comm_kernels"`
	StepsComplete int              `json:"steps_complete"` // those with a row
	InSteps       int              `json:"in_steps"`
	Called        int              `json:"called"` // in a step, with a call
	Groups        map[string]Group `json:"groups"`
	Columns       []string         `json:"columns"`
	Steps         []Row            `json:"steps"` // those with a kernel, by first start, then by push

	Copy       int64 `json:"-"` // what copies add, from First to Last, to the union of all kernels
	Invalid    int   `json:"-"` // kernels of start 0, of end 0 or that end before they start
	Duplicates int   `json:"-"` // kernels whose launch had their record already
}

// A Row is one step on one device.
type Row struct {
	Order                                 int // of its push among all step ranges
	Text                                  string
	Kernels                               int
	Compute, Comm, Overlap, Wall, Foreign int64
	Complete                              bool
	First, Last                           int64 // unix ns
	Called                                int
}

// MarshalJSON writes a row in the order of Columns.
func (r Row) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{r.Text, r.Kernels, r.Compute, r.Comm, r.Overlap, r.Wall, r.Foreign, r.Complete})
}

// A Group is the sum of the rows of one step text without its seq.
type Group struct {
	Steps   int   `json:"steps"`
	Kernels int   `json:"kernels"`
	Compute int64 `json:"compute_ns"`
	Comm    int64 `json:"comm_ns"`
	Wall    int64 `json:"wall_ns"`
}

// kernel is a Kernel with the step that it is in.
type kernel struct {
	Kernel
	step *step
}

type copied struct {
	interval
	device uint32
	what   string
}

func valid(start, end uint64) bool { return start != 0 && end >= start }

func (s *session) kernel(r krec.Record, l *launch, name string, comm func(string) bool) *kernel {
	k := &kernel{Kernel: Kernel{Name: name, Start: int64(r.Start()), End: int64(r.End()), Device: r.Device(), Stream: r.Stream(),
		Comm: comm(name), Step: -1, Invalid: !valid(r.Start(), r.End())}}
	if l == nil {
		return k
	}
	if l.got[r.Node()] || (!l.graph && len(l.got) > 0) {
		k.Duplicate = true
		return k
	}
	l.got[r.Node()] = true
	k.Call = l.call
	if r.Node() != 0 {
		k.Call = ""
		l.graphs[r.Node()>>32] = true
		if n := s.known(r.Node(), l.at); n != nil {
			k.Call = n.call
		}
	}
	if k.step = l.step; l.step != nil {
		k.Step, k.StepText = l.step.order, l.step.text
	}
	return k
}

func newCopied(r krec.Record) copied {
	c := copied{interval{int64(r.Start()), int64(r.End())}, r.Device(), "memset"}
	if r.Kind() == krec.KindMemcpy {
		c.what = fmt.Sprintf("copy kind %d", r.CopyKind())
	}
	return c
}

// devices are those that any record names, ascending.
func devices(kernels []*kernel, copies []copied) []uint32 {
	seen := map[uint32]bool{}
	for _, k := range kernels {
		seen[k.Device] = true
	}
	for _, c := range copies {
		seen[c.device] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// figures works out one device's; complete has the steps that are.
func figures(device uint32, counts Counts, complete map[*step]bool, all []*kernel, copies []copied) *Figures {
	f := &Figures{Device: device, Counts: counts, Copies: map[string]int{}, Groups: map[string]Group{}, Steps: []Row{},
		Columns: []string{"text", "kernels", "compute_ns", "comm_ns", "overlap_ns", "wall_ns", "foreign_compute_ns", "complete"}}
	var kernels []*kernel
	lacking := map[*step]bool{}
	for _, k := range all {
		switch {
		case k.Device != device:
		case k.Invalid:
			f.Invalid++
			lacking[k.step] = true
		default:
			kernels = append(kernels, k)
		}
	}
	byStep := map[*step][]*kernel{}
	for _, k := range kernels {
		f.Kernels++
		if k.Comm {
			f.CommKernels++
		}
		if k.Duplicate {
			f.Duplicates++
		}
		if k.step != nil {
			f.InSteps++
			byStep[k.step] = append(byStep[k.step], k)
			if k.Call != "" {
				f.Called++
			}
		}
	}
	whole := measure(kernels)
	f.First, f.Last, f.Compute, f.Comm, f.Overlap = whole.first, whole.last, whole.compute, whole.comm, whole.overlap
	f.Idle = f.Last - f.First - f.Compute - f.Comm

	with := intervals(kernels, func(*kernel) bool { return true })
	for _, c := range copies {
		if c.device == device {
			f.Copies[c.what]++
			if valid(uint64(c.start), uint64(c.end)) {
				with = append(with, c.interval)
			}
		}
	}
	f.Copy = union(clip(with, f.First, f.Last)) - f.Compute - f.Comm

	for p, mine := range byStep {
		f.Steps = append(f.Steps, row(p, complete[p] && !lacking[p], mine))
	}
	slices.SortFunc(f.Steps, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Order, b.Order))
	})
	var latest int64
	ordered, longest := byStart(kernels)
	for i := range f.Steps {
		r := &f.Steps[i]
		if i > 0 {
			// Those that may lie between: no kernel of the longest's time reaches over latest from before.
			begin := from(ordered, latest-longest)
			near := ordered[begin:max(begin, from(ordered, r.Last))]
			others := intervals(near, func(k *kernel) bool {
				return !k.Comm && k.Step != r.Order && k.End > latest && k.Start < r.Last
			})
			r.Foreign = union(clip(others, latest, r.Last))
		}
		latest = max(latest, r.Last)
		if r.Complete {
			f.StepsComplete++
		}
		text := withoutSeq(r.Text)
		g := f.Groups[text]
		f.Groups[text] = Group{g.Steps + 1, g.Kernels + r.Kernels, g.Compute + r.Compute, g.Comm + r.Comm, g.Wall + r.Wall}
	}
	return f
}

// byStart is kernels by start, and how long the longest is.
func byStart(kernels []*kernel) (ordered []*kernel, longest int64) {
	ordered = slices.SortedFunc(slices.Values(kernels), func(a, b *kernel) int { return cmp.Compare(a.Start, b.Start) })
	for _, k := range kernels {
		longest = max(longest, k.End-k.Start)
	}
	return ordered, longest
}

// from is the place of the first kernel that starts at a time or later.
func from(ordered []*kernel, start int64) int {
	at, _ := slices.BinarySearchFunc(ordered, start, func(k *kernel, start int64) int { return cmp.Compare(k.Start, start) })
	return at
}

func row(p *step, complete bool, kernels []*kernel) Row {
	m := measure(kernels)
	r := Row{Order: p.order, Text: p.text, Kernels: len(kernels), Compute: m.compute, Comm: m.comm, Overlap: m.overlap,
		Wall: m.last - m.first, Complete: complete, First: m.first, Last: m.last}
	for _, k := range kernels {
		if k.Call != "" {
			r.Called++
		}
	}
	return r
}

// withoutSeq is a step's text without its pair of key seq: "step:x seq=1,kv=2" is "step:x kv=2".
func withoutSeq(text string) string {
	program, pairs, _ := strings.Cut(text, " ")
	kept := slices.DeleteFunc(strings.Split(pairs, ","), func(pair string) bool { return strings.HasPrefix(pair, "seq=") })
	return strings.TrimSuffix(program+" "+strings.Join(kept, ","), " ")
}
