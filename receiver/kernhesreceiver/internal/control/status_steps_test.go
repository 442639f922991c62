package control

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
)

// TestWhatIsWrongWithStepRangesIsSaid for each way in which an engine pushes them wrongly.
func TestWhatIsWrongWithStepRangesIsSaid(t *testing.T) {
	status := func(mode string, change func(*engine.Report)) Status {
		r := engine.Report{Whole: true, Readable: true, Info: map[string]string{"run": "r", "pid": "7", "mode": mode}, Ranges: &engine.RangesReport{}}
		change(&r)
		return NewStatus(time.Unix(1_800_000_000, 0), Receiver{}, []fleet.Session{{ID: 1, Connected: true, Reports: []engine.Report{r}}})
	}
	for want, s := range map[string]Status{
		"30 of 40 step ranges launched nothing: push the range of a step on the thread that launches its kernels": status("hes", func(r *engine.Report) {
			r.StepRanges, r.Empty, r.Kernels = 40, 30, 500
		}),
		"40 of 40 step ranges launched nothing, and no kernel came: the process runs its steps elsewhere": status("hes", func(r *engine.Report) {
			r.StepRanges, r.Empty = 40, 40
		}),
		"1 steps were given up while their NVTX ranges were open: such a range is never popped, or lies around a whole loop and is no step": status("off", func(r *engine.Report) {
			r.StepRanges, r.Overlong = 1, 1
		}),
		"steps are pushed at no place that stays: no window of tracing can begin at a step": status("windows", func(r *engine.Report) {
			r.StepRanges = 20
		}),
		`300 NVTX ranges and no step so far: none matches a pattern. If "tick #" is a step, paste into the settings of the receiver: patterns: [{domain: 'own', match: '^tick \d+$', program: step}]`: status("off", func(r *engine.Report) {
			r.Ranges.Unmatched = []ranges.Unmatched{{Text: "tick #", Example: "tick 1", Domain: "own", Ranges: 300}}
		}),
	} {
		assert.Contains(t, s.Problems, "rank 0 of run r: "+want)
	}
	s := status("windows", func(r *engine.Report) {
		r.StepRanges, r.Empty, r.Untraced = 40, 10, 3
		r.Places = []engine.PlaceReport{{Place: engine.Place{Domain: 3, Thread: 7, Depth: 2}, Name: "own"}}
	})
	require.Empty(t, s.Problems)
	require.Equal(t, stepsStatus{Ranges: 40, Empty: 10, Places: []placeStatus{{"own", 7, 2}}}, s.Sessions[0].Steps)
	require.EqualValues(t, 3, s.Sessions[0].Ranks[0].Untraced)
}
