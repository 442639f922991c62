package cupti

import "sort"

// A history is when API calls were made, as launches show it. They bound the times of work of which no
// launch is known, and of copies, of whose calls nothing is told: correlation ids ascend.
type history struct {
	marks [1 << 10]call
	n     int // that were noted
}

type call struct {
	correlation uint32
	time        uint64
}

const (
	// callsApart is the least time between two marks, in ns: so they reach back ten seconds at least.
	callsApart = 10e6
	// preempted is how long a thread may stand between getting its correlation id and telling of its
	// launch, in ns.
	preempted = 100e6
)

func (h *history) at(i int) *call { return &h.marks[i%len(h.marks)] }

// note takes a launch.
func (h *history) note(correlation uint32, time uint64) {
	if h.n > 0 {
		last := h.at(h.n - 1)
		if time < last.time+callsApart || !after(correlation, last.correlation) {
			return
		}
	}
	*h.at(h.n) = call{correlation, time}
	h.n++
}

// earliest is when the API call with a correlation id was made at the earliest, unix ns; 0 if nothing
// tells.
func (h *history) earliest(correlation uint32) uint64 {
	first := max(h.n-len(h.marks), 0)
	later := first + sort.Search(h.n-first, func(i int) bool { return after(h.at(first+i).correlation, correlation) })
	if later == first {
		return 0
	}
	return max(h.at(later-1).time, preempted) - preempted
}
