package traces

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
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
			b := newTracingBench(t, everything, trace.Flat, nil)
			e := tracedEngine(b.Sink, wire.Hello{Version: 1, Session: 0xabc, Info: map[string]string{"run": "r", "rank": "0"}})
			s := &shimscript.Script{Out: func(f wire.Frame) { require.NoError(t, e.Frame(f)) }}
			s.Pinned = true
			s.Push(1, "step:decode seq=5,tokens=1")
			s.Base(test.base, 20)
			s.Launch(12, 21)
			s.Pop(13)
			s.Ran(21, 20, 30)
			s.Push(40, "step:decode seq=6,tokens=1")
			s.Launch(41, 22)
			s.Pop(42)
			s.Ran(22, 50, 60)
			s.Flushed(1000)
			s.Bye()
			e.End(false)
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
