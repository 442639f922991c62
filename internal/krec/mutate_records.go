package krec

import (
	"math"
	"strings"
)

// early is how much earlier than its launch a mutated kernel may start: half the slack that joins must allow.
const early = 50_000 // ns

// removeKernels loses kernel records here and there: up to one in ten.
func (m *mutator) removeKernels() {
	odds := 10 << m.rng.IntN(8)
	m.keep(func(Record) bool { return !m.chance(odds) })
}

// removeLaunches loses all records of some launches.
func (m *mutator) removeLaunches() {
	odds, lost := 20<<m.rng.IntN(5), map[uint32]bool{}
	eachRecord(m.r, func(r Record, _ *Launch) {
		if _, drawn := lost[r.Correlation()]; !drawn {
			lost[r.Correlation()] = m.chance(odds)
		}
	})
	m.keep(func(r Record) bool { return !lost[r.Correlation()] })
}

// keep removes the kernels that want does not want.
func (m *mutator) keep(want func(Record) bool) {
	for _, raw := range m.raws() {
		var kept []Record
		for _, r := range raw.Records {
			if r.Kind() != KindKernel || want(r) {
				kept = append(kept, r)
			}
		}
		raw.Records = kept
	}
}

// moveStream moves a share of all kernels to a new stream.
func (m *mutator) moveStream() {
	stream, odds := m.newStream(), 2+m.rng.IntN(20)
	eachRecord(m.r, func(r Record, _ *Launch) {
		if r.Kind() == KindKernel && m.chance(odds) {
			r.SetStream(stream)
		}
	})
}

// splitStream moves half of a stream's kernels to a new stream and lets them start up to 20 µs earlier, so that they
// overlap with the rest.
func (m *mutator) splitStream() {
	from, ok := m.someStream()
	if !ok {
		return
	}
	to := m.newStream()
	eachRecord(m.r, func(r Record, l *Launch) {
		if r.Kind() == KindKernel && r.Stream() == from && m.chance(2) {
			r.SetStream(to)
			m.place(r, l, -int64(m.rng.IntN(20_000)), 0)
		}
	})
}

// place shifts start and end of a valid record, keeping it after its launch less early and its end after its start.
func (m *mutator) place(r Record, l *Launch, start, end int64) {
	if r.Start() == 0 || r.End() < r.Start() {
		return
	}
	first := int64(r.Start()) + start
	if l != nil {
		first = max(first, min(int64(r.Start()), int64(l.Time)-early))
	}
	r.SetEnd(uint64(max(first, int64(r.End())+end)))
	r.SetStart(uint64(first))
}

// shiftAll moves the whole recording by up to a day, either way.
func (m *mutator) shiftAll() {
	const day = 24 * 3600 * 1_000_000_000
	by := uint64(m.rng.Int64N(2*day) - day) // wraps around: adding it subtracts
	shift := func(times ...*uint64) {
		for _, t := range times {
			if *t != 0 {
				*t += by
			}
		}
	}
	for _, f := range m.r.Frames {
		switch f := f.(type) {
		case *Launch:
			shift(&f.Time)
		case *Push:
			shift(&f.Time)
		case *Pop:
			shift(&f.Time)
		case *Clocks:
			shift(&f.Before, &f.CUPTI, &f.After)
		case *Raw:
			for _, r := range f.Records {
				start, end := r.Start(), r.End()
				shift(&start, &end)
				r.SetStart(start)
				r.SetEnd(end)
			}
		}
	}
}

// shiftStream jitters the times of one stream's kernels by up to 5 µs.
func (m *mutator) shiftStream() {
	stream, ok := m.someStream()
	if !ok {
		return
	}
	jitter := func() int64 { return m.rng.Int64N(10_000) - 5_000 }
	eachRecord(m.r, func(r Record, l *Launch) {
		if r.Kind() == KindKernel && r.Stream() == stream {
			m.place(r, l, jitter(), jitter())
		}
	})
}

// invalidTimes gives some kernels a start of 0, an end of 0, or an end before the start.
func (m *mutator) invalidTimes() {
	odds := 50 << m.rng.IntN(8)
	eachRecord(m.r, func(r Record, _ *Launch) {
		if r.Kind() != KindKernel || r.Start() == 0 || !m.chance(odds) {
			return
		}
		switch m.rng.IntN(3) {
		case 0:
			r.SetStart(0)
		case 1:
			r.SetEnd(0)
		case 2:
			r.SetEnd(r.Start() - 1)
		}
	})
}

// renameKernels gives NCCL's kernels, or where there are none one name in ten, the names of other collectives.
func (m *mutator) renameKernels() {
	var all, nccl []*Name
	for _, f := range m.r.Frames {
		if n, ok := f.(*Name); ok {
			all = append(all, n)
			if strings.Contains(n.Text, "nccl") {
				nccl = append(nccl, n)
			}
		}
	}
	odds := 2
	if len(nccl) == 0 {
		nccl, odds = all, 10
	}
	for _, n := range nccl {
		if m.chance(odds) {
			n.Text = Collectives[m.rng.IntN(len(Collectives))]
		}
	}
}

// wrapIDs shifts correlation ids so that they pass 2^32 at the launch of a record in the middle.
func (m *mutator) wrapIDs() {
	var ids []uint32
	eachRecord(m.r, func(r Record, _ *Launch) { ids = append(ids, r.Correlation()) })
	if len(ids) == 0 {
		return
	}
	by := math.MaxUint32 - ids[len(ids)/4+m.rng.IntN(len(ids)/2+1)] // the ids after that one are 0, 1, …
	for _, f := range m.r.Frames {
		switch f := f.(type) {
		case *Launch:
			f.Correlation += by
		case *Captured:
			f.Correlation += by
		case *Raw:
			for _, r := range f.Records {
				r.SetCorrelation(r.Correlation() + by)
			}
		}
	}
}

// shuffle puts the records within each buffer out of order, and delays some buffers behind later ones, by less than a
// second.
func (m *mutator) shuffle() {
	for _, raw := range m.raws() {
		m.rng.Shuffle(len(raw.Records), func(i, k int) { raw.Records[i], raw.Records[k] = raw.Records[k], raw.Records[i] })
	}
	at := times(m.r)
	late := map[int][]Frame{} // by the frame before which it is then
	frames := m.r.Frames
	for i, f := range frames {
		raw, ok := f.(*Raw)
		if !ok || !m.chance(2) {
			continue
		}
		later := i + 1 + m.rng.IntN(len(frames)-i) // before that frame, or at the end
		for at[later-1]-at[i] >= 1_000_000_000 {
			later--
		}
		if later > i+1 {
			late[later] = append([]Frame{raw}, late[later]...) // and in reverse order among themselves
			frames[i] = &Raw{}
		}
	}
	m.insert(late)
	var kept []Frame
	for _, f := range m.r.Frames {
		if raw, ok := f.(*Raw); !ok || len(raw.Records) > 0 {
			kept = append(kept, f)
		}
	}
	m.r.Frames = kept
}
