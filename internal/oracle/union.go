package oracle

import (
	"cmp"
	"slices"
)

// An interval is the time from start to end, in unix ns.
type interval struct{ start, end int64 }

// intervals are those of the kernels that want wants.
func intervals(kernels []*kernel, want func(*kernel) bool) []interval {
	var all []interval
	for _, k := range kernels {
		if want(k) {
			all = append(all, interval{k.Start, k.End})
		}
	}
	return all
}

// clip leaves of each interval what lies between from and to.
func clip(all []interval, from, to int64) []interval {
	var left []interval
	for _, i := range all {
		if i.start, i.end = max(i.start, from), min(i.end, to); i.start < i.end {
			left = append(left, i)
		}
	}
	return left
}

// union is the length of time that at least one interval covers.
func union(all []interval) int64 {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	var sum, covered int64 // covered: all before it has been summed
	for _, i := range all {
		if i.end > covered {
			sum += i.end - max(i.start, covered)
			covered = i.end
		}
	}
	return sum
}

type measures struct{ first, last, compute, comm, overlap int64 }

// measure works out the times of valid kernels; all 0 if there are none.
func measure(kernels []*kernel) measures {
	if len(kernels) == 0 {
		return measures{}
	}
	m := measures{first: kernels[0].Start, last: kernels[0].End}
	for _, k := range kernels {
		m.first, m.last = min(m.first, k.Start), max(m.last, k.End)
	}
	m.compute = union(intervals(kernels, func(k *kernel) bool { return !k.Comm }))
	m.comm = union(intervals(kernels, func(*kernel) bool { return true })) - m.compute
	m.overlap = union(intervals(kernels, func(k *kernel) bool { return k.Comm })) - m.comm
	return m
}
