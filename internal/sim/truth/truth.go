// Package truth writes what really happened in a simulated fleet, as JSON lines: docs/sim.md has
// their schema.
//
// It sums times by rules of its own, out of the kernels as they ran. Times are of each rank's
// clock, as the collector sees them.
package truth

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"

	"github.com/kernhes/kernhes/internal/sim/fleet"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// A StepLine is one step of one rank. Times are in ns; where a step was not traced only its range
// is true of what a collector sees.
type StepLine struct {
	Kind     string `json:"kind"` // step
	Run      string `json:"run"`
	Rank     int    `json:"rank"`
	Seq      uint64 `json:"seq"`
	Program  string `json:"program"`
	Seqs     int    `json:"seqs"`
	Tokens   int    `json:"tokens"`
	KV       int    `json:"kv"`
	Push     int64  `json:"push_ns"` // the step's range, of the host's clock
	Pop      int64  `json:"pop_ns"`
	Start    int64  `json:"start_ns"` // the first kernel's start
	End      int64  `json:"end_ns"`   // the last kernel's end; 0: it hangs
	Wall     int64  `json:"wall_ns"`
	Kernels  int    `json:"kernels"`
	Compute  int64  `json:"compute_ns"` // time in which a compute kernel of the step ran
	Comm     int64  `json:"comm_ns"`    // time in which only kernels of communication did
	Overlap  int64  `json:"overlap_ns"` // communication while compute ran
	Idle     int64  `json:"idle_ns"`
	Foreign  int64  `json:"foreign_compute_ns"` // compute outside the step since the step before ended; of the first step 0
	Traced   bool   `json:"traced"`
	Complete bool   `json:"complete"`
	Lost     int    `json:"lost"` // kernels whose records were lost
}

// A RankLine is the sum over a rank's traced kernels, at the end.
type RankLine struct {
	Kind    string `json:"kind"` // rank
	Run     string `json:"run"`
	Rank    int    `json:"rank"`
	Session string `json:"session"`
	Steps   int    `json:"steps"`
	Traced  int    `json:"steps_traced"`
	Kernels int    `json:"kernels"`
	Copies  int    `json:"copies"`
	Lost    int    `json:"lost"`

	DroppedKernels uint64 `json:"dropped_kernels"` // at the bound of what the collector has not acknowledged
	DroppedCopies  uint64 `json:"dropped_copies"`
	DroppedEvents  uint64 `json:"dropped_events"`

	First   int64  `json:"first_ns"`
	Last    int64  `json:"last_ns"`
	Compute int64  `json:"compute_ns"`
	Comm    int64  `json:"comm_ns"`
	Overlap int64  `json:"overlap_ns"`
	Copy    int64  `json:"copy_ns"` // what copies add to the kernels
	Idle    int64  `json:"idle_ns"` // Last − First − Compute − Comm
	Ended   string `json:"ended"`   // bye, hang or die
}

// A WaitLine is one meeting of ranks: who waited how long, for whom, and why.
type WaitLine struct {
	Kind     string  `json:"kind"` // wait
	Run      string  `json:"run"`
	Seq      uint64  `json:"seq"`
	Call     string  `json:"call"`
	Group    string  `json:"group"` // ep:0, tp:1, pp:3
	Ranks    []int   `json:"ranks"`
	Wait     []int64 `json:"wait_ns"`     // of each rank, for the last
	Work     []int64 `json:"work_ns"`     // of each rank, by itself
	Transfer int64   `json:"transfer_ns"` // from the last arrival to the end
	By       int     `json:"by"`          // the rank that came last
	Why      string  `json:"why"`         // a fault, program, batch, context, jitter; alone
	Extra    int64   `json:"extra_ns"`    // what the fault had added to that rank
	Heaviest int     `json:"heaviest"`    // the rank with the most work: the others' rest of the transfer is for it
	SlowLink bool    `json:"slow_link"`
}

// An EventLine is a fault or change of the schedule.
type EventLine struct {
	Kind   string  `json:"kind"` // event
	Run    string  `json:"run"`
	Event  string  `json:"event"`
	Fault  bool    `json:"fault"` // false: a change that is none
	Rank   int     `json:"rank"`  // -1: all
	From   int64   `json:"from_ns"`
	To     int64   `json:"to_ns"` // 0: up to the end
	Every  int64   `json:"every_ns"`
	Amount float64 `json:"amount"`
	Unit   string  `json:"unit"`
	Match  string  `json:"match,omitempty"`
	Layer  int     `json:"layer"` // -1: all
}

// A Rank sums what ran on one rank's GPU.
type Rank struct {
	RankLine
	compute, comm, kernels, any cover
	foreign                     []interval // not before the end of the last step
	stepped                     bool
	end                         int64 // latest end of a step
}

// Step adds a step that ran, offset ns later on the rank's clock.
func (r *Rank) Step(s *fleet.Step, offset int64, traced bool) StepLine {
	line := StepLine{
		Kind: "step", Run: r.Run, Rank: r.RankLine.Rank, Seq: s.Seq, Program: s.Program.Name, Seqs: s.Batch.Seqs, Tokens: s.Batch.Tokens,
		KV: s.Batch.KV, Push: s.Push, Pop: s.Pop, Traced: traced, Complete: !s.Hung,
	}
	r.Steps++
	if !traced || len(s.Spans) == 0 {
		return line
	}
	r.Traced++
	own := intervals(s.Spans, offset)
	line.Kernels, line.Start = len(own), own[0].start
	for _, i := range own {
		line.Start, line.End = min(line.Start, i.start), max(line.End, i.end)
	}
	sums := sum(own)
	line.Wall = line.End - line.Start
	line.Compute, line.Comm, line.Overlap = sums.compute, sums.busy-sums.compute, sums.comm-(sums.busy-sums.compute)
	line.Idle = line.Wall - sums.busy

	foreign := intervals(s.Foreign, offset)
	r.foreign = append(r.foreign, foreign...)
	if r.stepped {
		line.Foreign = within(r.foreign, r.end, line.End)
	}
	r.stepped, r.end = true, max(r.end, line.End)
	r.foreign = slices.DeleteFunc(r.foreign, func(i interval) bool { return i.end <= r.end })
	copies := append(intervals(s.Peer, offset), interval{start: s.Copy.Start + offset, end: s.Copy.End + offset})
	r.add(append(own, foreign...), copies)
	return line
}

// add adds what began on the device since the last call.
func (r *Rank) add(kernels, copies []interval) {
	for i := range copies {
		copies[i].copied = true
	}
	all := append(append([]interval(nil), kernels...), copies...)
	slices.SortStableFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	for _, i := range all {
		if i.copied {
			r.Copies++
			if r.First > 0 {
				r.any.add(i)
			}
			continue
		}
		if r.First == 0 {
			r.First = i.start
		}
		r.Kernels++
		r.Last = max(r.Last, i.end)
		r.any.add(i)
		r.kernels.add(i)
		if i.comm {
			r.comm.add(i)
		} else {
			r.compute.add(i)
		}
	}
}

// Close is the rank's line, when all has been added.
func (r *Rank) Close() RankLine {
	l := r.RankLine
	l.Kind = "rank"
	l.Compute, l.Comm = r.compute.sum, r.kernels.sum-r.compute.sum
	l.Overlap = r.comm.sum - l.Comm
	l.Copy = r.any.until(l.Last) - r.kernels.sum
	l.Idle = l.Last - l.First - l.Compute - l.Comm
	return l
}

// Wait is the line of a meeting.
func Wait(run string, m *fleet.Meeting) WaitLine {
	l := WaitLine{
		Kind: "wait", Run: run, Seq: m.Seq, Call: m.Call, Group: Group(m.Kind, m.Group), Ranks: m.Ranks, Work: m.Work, Transfer: m.Leave - m.Arrived,
		By: m.Last, Why: m.Why, Extra: m.Extra, Heaviest: m.Heaviest, SlowLink: m.Slow,
	}
	for i := range m.Ranks {
		l.Wait = append(l.Wait, m.Wait(i))
	}
	return l
}

// A Writer writes lines. A nil Writer writes none.
type Writer struct{ json *json.Encoder }

// NewWriter is a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{json.NewEncoder(w)} }

// Write writes one line.
func (w *Writer) Write(line any) error {
	if w == nil {
		return nil
	}
	return w.json.Encode(line)
}

// Group is the text of a group: ep:0.
func Group(m program.Meeting, n int) string {
	return m.String() + ":" + strconv.Itoa(n)
}
