// Package faults says which faults a release of CUPTI is known to have, so that who traces with it is told.
package faults

import "strings"

// A Fault is one that NVIDIA's release notes tell of.
type Fault struct {
	ID   string // short, as attributes have it
	Text string // one line for people

	from, fixed int  // cuptiGetVersion: a small number before CUDA 13, then 10000·major + 100·minor + update
	hes         bool // only with the Hardware Event System
}

// known are those that matter to the shim, by the version that mended them. Where the notes do not say since when, it is 0.
var known = []Fault{
	{"no_buffer_crash", "before 12.9 it crashes when no activity buffer is free; the shim keeps a reserve", 0, 27, false},
	{"flush_crash", "13.0 may crash when NVTX is used before CUPTI, and in a flush; 13.0 Update 1 does not", 130000, 130001, false},
	{"disable_deadlock", "13.0 may deadlock when kernels cease to be traced, as in a yield; 13.0 Update 1 does not", 130000, 130001, false},
	{"correlation_ids", "graph launches may carry wrong correlation ids after the first tracing session; fixed in 13.1 Update 1", 130000, 130101, false},
	{"slow_calls", "13.2 slows down with each CUPTI call; fixed in 13.3", 130200, 130300, false},
	{"hes_heap", "with HES a flush while NCCL sets up may corrupt the heap, and copies in graphs lose half of their node's id; fixed in 13.4", 26, 130400, true},
	{"hes_leak", "with HES it leaks 100 bytes a kernel and may crash while graphs are instantiated; fixed in 13.4 Update 1", 26, 130401, true},
	{"cpu_growth", "the longer it traces the more CPU it takes; fixed in 13.4 Update 1", 130000, 130401, false},
}

// Of returns the faults of a version, as cuptiGetVersion says it; hes says whether those count that only HES has.
// A version of 0 is not known, and has none.
func Of(version int, hes bool) (list []Fault) {
	for _, f := range known {
		if version > 0 && version >= f.from && version < f.fixed && (hes || !f.hes) {
			list = append(list, f)
		}
	}
	return list
}

// IDs joins the ids of faults by commas.
func IDs(list []Fault) string {
	ids := make([]string, len(list))
	for i, f := range list {
		ids[i] = f.ID
	}
	return strings.Join(ids, ",")
}
