package fleet

import (
	"strings"

	"github.com/kernhes/kernhes/internal/sim/program"
)

// begin issues a step: the engine copies its input to the device, and launches.
func (f *Fleet) begin(r *rank, seq uint64, j Job) *Step {
	s := &Step{Job: j, Seq: seq}
	s.Push = max(r.host, j.After, r.free)
	for _, e := range f.Schedule.On("host_gaps", r.id, f.at(s.Push)) {
		f.blame(r, e.Name, ticks(e.Size*1e6))
		s.Push += ticks(e.Size * 1e6)
	}
	s.Copy = Span{Start: s.Push + latency, End: s.Push + latency + f.jittered(r, upload)}
	r.free = max(r.free, s.Copy.End)
	if j.Program.Graph {
		s.Launches = []int64{s.Copy.End + tick}
	} else {
		for i := range j.Program.Kernels {
			s.Launches = append(s.Launches, s.Copy.End+tick+int64(i)*launchGap)
		}
	}
	f.stall(r, s)
	f.rearrange(r, s)
	s.Pop = s.Launches[len(s.Launches)-1] + launchGap
	r.free = max(r.free, s.Copy.End)
	r.step, r.next, r.met, r.waits = s, 0, [4]int{}, false
	return s
}

// stall delays launches once: something is compiled, or loaded, in the middle of the step.
func (f *Fleet) stall(r *rank, s *Step) {
	for _, e := range f.Schedule {
		if e.Name != "stall" || !e.Once(r.id, f.at(s.Push)) {
			continue
		}
		late := ticks(e.Size * 1e6)
		for i := len(s.Launches) / 2; i < len(s.Launches); i++ {
			s.Launches[i] += late
		}
		f.blame(r, e.Name, late)
	}
}

// rearrange moves experts between ranks before the step: copies from peers, and other loads from
// then on.
func (f *Fleet) rearrange(r *rank, s *Step) {
	for _, e := range f.Schedule {
		if e.Name != "rearrangement" || !e.Once(r.id, f.at(s.Push)) {
			continue
		}
		long := ticks(e.Size * 1e6)
		from := s.Copy.End + tick
		s.Peer = append(s.Peer, Span{Start: from, End: from + long})
		for i := range s.Launches {
			s.Launches[i] += long
		}
		if r.id == 0 {
			f.moved++
			clear(f.loads)
		}
	}
}

// advance runs the next kernel of a rank, and reports whether it could.
func (f *Fleet) advance(r *rank, waiting map[group]*Meeting) bool {
	s := r.step
	if r.next == len(s.Program.Kernels) {
		r.host, r.step = max(s.End(), s.Pop)+f.Gap, nil
		r.free = max(r.free, r.side)
		return false
	}
	k := &s.Program.Kernels[r.next]
	start := f.start(r, s, k)
	if k.Meets != program.None {
		if f.skips(r, s) {
			r.next++
			return true
		}
		return f.enter(r, s, k, start, waiting)
	}
	span := Span{Kernel: k, Index: r.next, Start: start, End: start + f.work(r, k, k.Cost.Ticks(s.Batch)*tick, start)}
	s.Spans = append(s.Spans, span)
	r.next++
	if f.hangs(r, s) {
		return false
	}
	if k.Side {
		r.side = span.End
		return true
	}
	r.free = span.End
	f.foreign(r, s, span)
	return true
}

// start is when a kernel starts: after its launch, and the one before it.
func (f *Fleet) start(r *rank, s *Step, k *program.Kernel) int64 {
	gap := int64(tick)
	launch := s.Launches[0]
	if s.Program.Graph {
		gap = f.gap(r.rng, r.next)
	} else {
		launch = s.Launches[r.next]
	}
	start := max(r.free+gap, launch+latency)
	if r.next > 0 && s.Program.Kernels[r.next-1].Meets != program.None {
		start = max(start, r.side+gap)
	}
	return start
}

// work is how long a rank's own kernel takes, faults included.
func (f *Fleet) work(r *rank, k *program.Kernel, ns, now int64) int64 {
	long := f.jittered(r, ns)
	for _, e := range f.Schedule.On("slow_clocks", r.id, f.at(now)) {
		more := ticks(float64(long) * e.Size / 100)
		long += more
		f.blame(r, e.Name, more)
	}
	for _, e := range f.Schedule.On("slow_kernel", r.id, f.at(now)) {
		if strings.Contains(k.Op, e.Match) || strings.Contains(k.Call, e.Match) {
			more := ticks(float64(long) * e.Size / 100)
			long += more
			f.blame(r, e.Name, more)
		}
	}
	return long
}

// foreign runs a GEMM that is no step's: it begins while a kernel runs, and the next waits for it.
func (f *Fleet) foreign(r *rank, s *Step, during Span) {
	for _, e := range f.Schedule {
		if e.Name != "foreign_gemm" || !e.Again(r.id, f.at(during.Start)) {
			continue
		}
		long := ticks(e.Size * 1e6)
		start := during.Start + (during.End-during.Start)/2/tick*tick
		s.Foreign = append(s.Foreign, Span{Start: start, End: during.End + long})
		r.free = during.End + long
		f.blame(r, e.Name, long)
	}
}

// hangs ends the rank's life in the kernel that it has just begun.
func (f *Fleet) hangs(r *rank, s *Step) bool {
	for _, name := range []string{"hang", "die"} {
		if len(f.Schedule.On(name, r.id, f.at(s.Spans[len(s.Spans)-1].Start))) > 0 {
			s.Hung, r.step, r.dead = true, nil, true
			return true
		}
	}
	return false
}

// skips reports whether the rank leaves a meeting out: then all others wait for ever.
func (f *Fleet) skips(r *rank, s *Step) bool {
	for _, e := range f.Schedule {
		if e.Name == "skipped_collective" && e.Once(r.id, f.at(s.Push)) {
			return true
		}
	}
	return false
}

// blame notes time that a fault added to a rank since it last met others.
func (f *Fleet) blame(r *rank, fault string, ns int64) { r.extra[fault] += ns }
