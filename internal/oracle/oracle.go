// Package oracle works out a recording's figures slowly and plainly, for tests to hold the product to. It shares nothing
// with the product: it works on the recording's own frames, all of it in memory, and sums integer nanoseconds.
package oracle

import (
	"slices"
	"strings"

	"github.com/kernhes/kernhes/internal/krec"
)

// NCCL says whether a kernel of that name is NCCL's: the rule for the recordings.
func NCCL(name string) bool { return strings.Contains(name, "nccl") }

// Collective is NCCL and the other collectives that krec's mutations rename kernels to.
func Collective(name string) bool { return NCCL(name) || slices.Contains(krec.Collectives, name) }

// slack is how much earlier than its launch a kernel may start: GPU clocks are converted to ±20 µs, at worst a few times that.
const slack = 100_000 // ns

// A Work is what one process did.
type Work struct {
	Counts
	Kernels []Kernel   // every kernel record in file order, invalid ones too
	Devices []*Figures // by device, ascending; a process with several devices has a rank for each
}

// Counts are of the whole process: a launch has no device until its records come.
type Counts struct {
	Launches            int `json:"launches"`
	CapturedLaunches    int `json:"captured_launches"`
	UnfulfilledLaunches int `json:"unfulfilled_launches"` // lack a record; in or out of steps
	StepRanges          int `json:"step_ranges"`          // with or without kernels
}

// A Kernel is one kernel record and whose it is.
type Kernel struct {
	Name       string
	Start, End int64 // unix ns
	Device     uint32
	Stream     uint32
	Comm       bool
	Step       int    // index of the step's range among all step ranges, in order of push; -1: outside any step
	StepText   string // "": outside any step
	Call       string // label; "": none
	Invalid    bool   // start 0, end 0 or end before start: enters no sum
	Duplicate  bool   // its launch has this record already: outside any step
}

// Do works out what r's process did. comm says by name whether a kernel is a communication kernel.
func Do(r *krec.Recording, comm func(name string) bool) *Work {
	s := newSession()
	names := map[uint64]string{}
	var kernels []*kernel
	var copies []copied
	for i, f := range r.Frames {
		switch f := f.(type) {
		case *krec.Push:
			s.push(f)
		case *krec.Pop:
			s.pop(f)
		case *krec.Launch:
			s.launch(i, f)
		case *krec.NodeCreated:
			s.created(i, f)
		case *krec.NodeCloned:
			s.cloned(i, f)
		case *krec.Captured:
			s.captured(f)
		case *krec.Name:
			names[f.Pointer] = f.Text
		case *krec.Raw:
			for _, record := range f.Records {
				l := s.match(record)
				if record.Kind() != krec.KindKernel {
					copies = append(copies, newCopied(record))
					if l != nil && record.Node() != 0 {
						l.graphs[record.Node()>>32] = true
					}
					continue
				}
				kernels = append(kernels, s.kernel(record, l, names[record.Name()], comm))
			}
		}
	}
	w := &Work{Counts: s.counts()}
	for _, k := range kernels {
		w.Kernels = append(w.Kernels, k.Kernel)
	}
	complete := map[*step]bool{}
	for _, p := range s.steps {
		complete[p] = s.complete(p)
	}
	for _, device := range devices(kernels, copies) {
		w.Devices = append(w.Devices, figures(device, w.Counts, complete, kernels, copies))
	}
	return w
}
