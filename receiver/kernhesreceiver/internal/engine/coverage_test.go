package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
)

const ncclName = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

// Kernels of steps and outside any, eager and of a graph: each counts once, by what gave its class.
func TestCoverage(t *testing.T) {
	s := newScript(t)
	s.Strings(ncclName, "mystery", "ours")
	s.Push(0, "step:decode seq=1")
	s.Push(1, "a call")
	s.Launch(2, 1)
	s.Pop(3)
	s.Launch(4, 2)
	s.Pop(5)
	s.ranNamed(1, 1, 10, 15)
	s.ranNamed(2, 2, 15, 18)

	s.Push(20, "another call")
	s.Node(21, 5<<32)
	s.Node(22, 5<<32|1)
	s.Pop(23)
	s.Clone(24, 5<<32, 6<<32)
	s.Clone(24, 5<<32|1, 6<<32|1)
	for i := range uint64(2) { // the first outside any step
		at := 100 * (i + 1)
		if i == 1 {
			s.Push(at, "step:decode seq=2")
		}
		s.GraphLaunch(at+1, uint32(10+i))
		if i == 1 {
			s.Pop(at + 2)
		}
		s.ranNodeNamed(uint32(10+i), 6<<32, 2, at+10, at+20)
		s.ranNodeNamed(uint32(10+i), 6<<32|1, 1, at+20, at+27)
	}
	s.Launch(300, 20)
	s.ranNamed(20, 3, 310, 350)
	s.ranNamed(99, 9, 400, 401) // neither its launch nor its name is known
	s.Flushed(1000)

	us := func(us, kernels uint64) coverage.Time { return coverage.Time{NS: us * 1000, Kernels: kernels} }
	require.Equal(t, coverage.Report{
		Totals: coverage.Totals{
			By:     [3]coverage.Time{us(3+10+10+40+1, 5), us(5+7+7, 3)},
			InStep: us(5+3+17, 4), Labelled: us(5+17, 3),
		},
		Defaulted:  []coverage.Named{{Name: "ours", Time: us(40, 1)}, {Name: "mystery", Time: us(23, 3)}, {Time: us(1, 1)}},
		Unlabelled: []coverage.Named{{Name: "mystery", Time: us(3, 1)}},
	}, s.report().Coverage)
}
