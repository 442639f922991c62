package krec

import (
	"cmp"
	"slices"
)

// A span is an outermost step range: from the frame of its push to that of its pop.
type span struct {
	push, pop int
	thread    uint32
}

func (m *mutator) spans() []span {
	var spans []span
	open := map[uint32][]int{} // by thread: frames of the open pushes
	outer := map[uint32]int{}  // by thread: how deep the outermost open step stands, from 1
	for i, f := range m.r.Frames {
		switch f := f.(type) {
		case *Push:
			if f.Domain == 0 {
				open[f.Thread] = append(open[f.Thread], i)
				if isStep(f.Text) && outer[f.Thread] == 0 {
					outer[f.Thread] = len(open[f.Thread])
				}
			}
		case *Pop:
			n := len(open[f.Thread])
			if f.Domain != 0 || n == 0 {
				continue
			}
			if n == outer[f.Thread] {
				spans = append(spans, span{open[f.Thread][n-1], i, f.Thread})
				outer[f.Thread] = 0
			}
			open[f.Thread] = open[f.Thread][:n-1]
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.push, b.push) })
	return spans
}

// move gives all that a span's thread did within it to another thread.
func (m *mutator) move(s span, to uint32) {
	for _, f := range m.r.Frames[s.push : s.pop+1] {
		var thread *uint32
		switch f := f.(type) {
		case *Push:
			thread = &f.Thread
		case *Pop:
			thread = &f.Thread
		case *Launch:
			thread = &f.Thread
		case *NodeCreated:
			thread = &f.Thread
		}
		if thread != nil && *thread == s.thread {
			*thread = to
		}
	}
}

// twoThreads moves every second step to a second thread.
func (m *mutator) twoThreads() {
	to := m.newThread()
	for i, s := range m.spans() {
		if i%2 == 1 {
			m.move(s, to)
		}
	}
}

// overlapThreads moves the second of some pairs of neighbouring steps to a second thread, where it begins while the first
// is open.
func (m *mutator) overlapThreads() {
	to, spans, at := m.newThread(), m.spans(), times(m.r)
	for i := 0; i+1 < len(spans); i += 2 {
		a, b := spans[i], spans[i+1]
		if a.thread != b.thread || b.push < a.pop || at[b.push] == at[a.push] || !m.chance(2) || m.captures(b) {
			continue
		}
		m.move(b, to)
		lead := at[b.push] - at[a.push]
		earlier := lead - m.rng.Uint64N(min(lead, max(at[a.pop]-at[a.push], 1))) // b begins between a's push and pop
		m.interleave(a.push, b.pop, to, earlier, at)
	}
}

// captures says whether a graph is captured in a span: its frames have no time to sort them by.
func (m *mutator) captures(s span) bool {
	return slices.ContainsFunc(m.r.Frames[s.push:s.pop], func(f Frame) bool {
		switch f.(type) {
		case *NodeCreated, *NodeCloned, *Captured, *GraphExec:
			return true
		}
		return false
	})
}

// interleave makes what a thread does in frames from..to happen earlier, by ns, and sorts those frames by time.
func (m *mutator) interleave(from, to int, thread uint32, by uint64, at []uint64) {
	type timed struct {
		at uint64
		f  Frame
	}
	var all []timed
	for i := from; i <= to; i++ {
		t := timed{at[i], m.r.Frames[i]}
		switch f := t.f.(type) {
		case *Push:
			if f.Thread == thread {
				f.Time -= by
				t.at = f.Time
			}
		case *Pop:
			if f.Thread == thread {
				f.Time -= by
				t.at = f.Time
			}
		case *Launch:
			if f.Thread == thread {
				f.Time -= by
				t.at = f.Time
			}
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	for i, t := range all {
		m.r.Frames[from+i] = t.f
	}
}
