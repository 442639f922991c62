package kernhesreceiver

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/trace"
)

// TestTheRestOfAStepIsNotTraced joins a session in the middle of a step that an earlier collector wrote: what is sent of it again
// would be other spans under the same ids.
func TestTheRestOfAStepIsNotTraced(t *testing.T) {
	for name, test := range map[string]struct {
		base uint64 // last frame that is not sent any more
		seqs []int64
	}{"joined": {100, []int64{6}}, "heard from its first frame on": {0, []int64{5, 6}}} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			b := newTracingBench(t, everything, trace.Flat, nil)
			s.p.set.traces = b.tracer
			s.pinned = true
			s.push(1, "step:decode seq=5,tokens=1")
			s.base(test.base, 20)
			s.launch(12, 21)
			s.pop(13)
			s.ran(21, 20, 30)
			s.push(40, "step:decode seq=6,tokens=1")
			s.launch(41, 22)
			s.pop(42)
			s.ran(22, 50, 60)
			s.flushed(1000)
			s.bye()
			b.drain()
			roots, _ := whole(t, spansOf(t, b.sink.AllTraces()))
			var seqs []int64
			for _, root := range roots {
				seqs = append(seqs, root.int(metadata.AttributeKernStepSeq))
			}
			require.ElementsMatch(t, test.seqs, seqs)
		})
	}
}
