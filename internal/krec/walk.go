package krec

import (
	"bytes"
	"fmt"
)

// place is a stack of ranges: one a thread and domain.
type place struct{ thread, domain uint32 }

// stacks are the open ranges by place, innermost last.
type stacks map[place][]*Push

// step takes a frame into account.
func (s stacks) step(f Frame) {
	switch f := f.(type) {
	case *Push:
		p := place{f.Thread, f.Domain}
		s[p] = append(s[p], f)
	case *Pop:
		p := place{f.Thread, f.Domain}
		if n := len(s[p]); n > 0 { // a pop of nothing is one of those that engines do
			s[p] = s[p][:n-1]
		}
	}
}

// innermost is depth and text of the default domain's innermost range of a thread.
func (s stacks) innermost(thread uint32) (depth uint32, text string) {
	open := s[place{thread, 0}]
	if len(open) > 0 {
		text = open[len(open)-1].Text
	}
	return uint32(len(open)), text
}

// settle works depths and texts out anew from pushes and pops.
func settle(r *Recording) {
	s := stacks{}
	for _, f := range r.Frames {
		s.step(f)
		switch f := f.(type) {
		case *Push:
			f.Depth = uint32(len(s[place{f.Thread, f.Domain}]))
		case *Pop:
			f.Depth = uint32(len(s[place{f.Thread, f.Domain}]))
		case *Launch:
			f.Depth, f.Text = s.innermost(f.Thread)
		case *NodeCreated:
			_, f.Text = s.innermost(f.Thread)
		}
	}
}

// timeOf is when a frame happened, in unix ns, and false for one that does not say.
func timeOf(f Frame) (uint64, bool) {
	switch f := f.(type) {
	case *Launch:
		return f.Time, true
	case *Push:
		return f.Time, true
	case *Pop:
		return f.Time, true
	}
	return 0, false
}

// times is for each frame when it happened: its own time, or that of the last one before it that has one.
func times(r *Recording) []uint64 {
	all := make([]uint64, len(r.Frames))
	var now uint64
	for i, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			now = t
		}
		all[i] = now
	}
	return all
}

// eachRecord calls f with every record, in order, and the latest launch of its correlation id before it, or nil.
func eachRecord(r *Recording, f func(Record, *Launch)) {
	launches := map[uint32]*Launch{}
	for _, frame := range r.Frames {
		switch frame := frame.(type) {
		case *Launch:
			launches[frame.Correlation] = frame
		case *Captured:
			delete(launches, frame.Correlation)
		case *Raw:
			for _, record := range frame.Records {
				f(record, launches[record.Correlation()])
			}
		}
	}
}

// Check says what in r could not have been recorded: events against the order of time, depths and texts that the pushes
// and pops do not give, a record before its launch, a name before it was given.
func Check(r *Recording) error {
	settled := r.Clone()
	settle(settled)
	named, launched, launches := map[uint64]bool{}, map[uint32]bool{}, map[uint32]bool{}
	for _, f := range r.Frames {
		if l, ok := f.(*Launch); ok {
			launches[l.Correlation] = true
		}
	}
	var last uint64
	for i, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			if t == 0 || t < last {
				return fmt.Errorf("frame %d: time %d after %d", i, t, last)
			}
			last = t
		}
		switch f := f.(type) {
		case *Launch:
			launched[f.Correlation] = true
		case *Name:
			named[f.Pointer] = true
		case *Raw:
			for k, record := range f.Records {
				if c := record.Correlation(); launches[c] && !launched[c] {
					return fmt.Errorf("frame %d: record %d: correlation id %d before its launch", i, k, c)
				}
				if record.Kind() == KindKernel && !named[record.Name()] {
					return fmt.Errorf("frame %d: record %d: name %#x was not given before", i, k, record.Name())
				}
			}
			continue
		}
		if !bytes.Equal(f.appendBody(nil), settled.Frames[i].appendBody(nil)) {
			return fmt.Errorf("frame %d: is %+v, the ranges say %+v", i, f, settled.Frames[i])
		}
	}
	return nil
}
