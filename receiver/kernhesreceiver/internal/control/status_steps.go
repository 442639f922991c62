package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// A placeStatus is where a thread pushes its steps: the shim holds the engine there when a window of tracing begins or ends.
type placeStatus struct {
	Domain string `json:"domain"`
	Thread uint32 `json:"thread"` // 0: any
	Depth  uint32 `json:"depth"`  // ranges of the thread in the domain that are open then, the step's counted
}

// A stepsStatus is what is known of a session's step ranges, traced or not.
type stepsStatus struct {
	Ranges   uint64        `json:"ranges"`
	Empty    uint64        `json:"without_launch"` // nothing was launched in them, though tracing was on
	Overlong uint64        `json:"given_up_open"`  // steps that were given up while their ranges were open
	Measured uint64        `json:"measured"`       // steps whose device time the engine told
	Places   []placeStatus `json:"places"`         // where they are pushed
}

// steps says of a session how its step ranges are.
func (s *sessionStatus) steps(r *engine.Report) {
	s.Steps.Ranges, s.Steps.Empty = r.StepRanges, r.Empty
	for _, p := range r.Places {
		s.Steps.Places = append(s.Steps.Places, placeStatus{clean(p.Name), p.Thread, p.Depth})
	}
	for i := range r.Pace {
		s.Steps.Measured += r.Pace[i].Device.N
	}
}

// Numbers of ranges from which on something is a problem.
const (
	someSteps  = 20
	someRanges = 200
)

// stepProblems says what is wrong with a session's step ranges.
func (s *sessionStatus) stepProblems(name string, say func(format string, args ...any)) {
	kernels := uint64(0)
	for i := range s.Ranks {
		kernels += s.Ranks[i].Kernels
	}
	if n := &s.Steps; n.Ranges >= someSteps && 2*n.Empty > n.Ranges {
		if kernels > 0 {
			say("%s: %d of %d step ranges launched nothing: push the range of a step on the thread that launches its kernels", name, n.Empty, n.Ranges)
		} else {
			say("%s: %d of %d step ranges launched nothing, and no kernel came: the process runs its steps elsewhere", name, n.Empty, n.Ranges)
		}
	}
	if n := s.Steps.Overlong; n > 0 {
		say("%s: %d steps were given up while their NVTX ranges were open: such a range is never popped, or lies around a whole loop and is no step",
			name, n)
	}
	if s.Mode == "windows" && s.Steps.Ranges >= someSteps && len(s.Steps.Places) == 0 {
		say("%s: steps are pushed at no place that stays: no window of tracing can begin at a step", name)
	}
	if why := s.noUntracedStep(kernels); why != "" {
		say("%s: %s", name, why)
	}
}

// noUntracedStep says that an engine that is not traced has ranges, none of which is a step's; "" if that is not so.
func (s *sessionStatus) noUntracedStep(kernels uint64) string {
	count := uint64(0)
	for i := range s.Unmatched {
		count += s.Unmatched[i].Ranges
	}
	if s.Steps.Ranges > 0 || kernels > 0 || count < someRanges {
		return ""
	}
	best := &s.Unmatched[0]
	if i := slices.IndexFunc(s.Unmatched, func(u unmatchedStatus) bool { return strings.Contains(u.Paste, "preset:") }); i >= 0 {
		best = &s.Unmatched[i]
	}
	return fmt.Sprintf("%d NVTX ranges and no step so far: none matches a pattern. If %q is a step, paste into the settings of the receiver: patterns: [%s]",
		count, best.Text, best.Paste)
}
