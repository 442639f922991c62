package digest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// at is a kernel of a step by hand.
type at struct {
	class      chunk.Class
	start, end uint64
}

func packed(kernels ...at) *chunk.Step {
	s := &chunk.Step{Seq: 7, Pairs: true, Complete: true, Program: "decode", Shape: &chunk.Shape{}, Kernels: len(kernels), Last: true, Launches: make([]chunk.Launch, 1)}
	for _, k := range kernels {
		s.Shape.Positions = append(s.Shape.Positions, chunk.Position{Class: k.class, Call: "call", Name: "ncclDevKernel_AllReduce"})
		s.Starts, s.Durs = append(s.Starts, k.start), append(s.Durs, k.end-k.start)
	}
	return s
}

const compute, comm, spin = chunk.Compute, chunk.Comm, chunk.Spin

// Before and Until are the union of compute up to a call's start and end, by hand.
func TestCallsKnowTheComputeBeforeThem(t *testing.T) {
	check := func(what string, want []Call, kernels ...at) {
		t.Helper()
		b := Builder{Shapes: NewShapes()}
		got := b.Add(packed(kernels...))
		require.Equal(t, want, got.Calls, what)
	}
	check("in a row", []Call{{30, 10, 20, 20}, {50, 5, 25, 25}}, at{compute, 10, 30}, at{comm, 30, 40}, at{compute, 42, 47}, at{comm, 50, 55}, at{compute, 60, 70})
	check("compute runs on under a call", []Call{{20, 10, 10, 20}}, at{compute, 10, 40}, at{comm, 20, 30})
	check("compute begins under a call", []Call{{20, 10, 10, 15}}, at{compute, 10, 20}, at{comm, 20, 30}, at{compute, 25, 50})
	check("compute on two streams counts once", []Call{{30, 10, 20, 20}}, at{compute, 10, 25}, at{compute, 15, 30}, at{comm, 30, 40})
	check("the order of launch is not that of starts", []Call{{30, 10, 20, 20}}, at{comm, 30, 40}, at{compute, 10, 30})
	check("a kernel that waits for the host is no compute", []Call{{30, 10, 0, 0}}, at{spin, 10, 30}, at{comm, 30, 40})
	check("two calls at once", []Call{{20, 20, 10, 15}, {25, 5, 10, 10}}, at{compute, 10, 20}, at{comm, 20, 40}, at{comm, 25, 30}, at{compute, 35, 50})
	check("no call", nil, at{compute, 10, 20})
}

// A step in parts gives the digest of the whole.
func TestAStepInPartsIsOne(t *testing.T) {
	whole := packed(at{compute, 10, 30}, at{comm, 30, 40}, at{compute, 42, 47}, at{comm, 50, 55})
	b := Builder{Shapes: NewShapes()}
	want := b.Add(whole)
	part := func(lo, hi int) *chunk.Step {
		p := *whole
		p.Shape = &chunk.Shape{Positions: whole.Shape.Positions[lo:hi]}
		p.Starts, p.Durs, p.Offset, p.Last = whole.Starts[lo:hi], whole.Durs[lo:hi], lo, hi == 4
		return &p
	}
	require.Nil(t, b.Add(part(0, 3)))
	got := b.Add(part(3, 4))
	require.Equal(t, want.Calls, got.Calls)
	require.Same(t, want.Shape, got.Shape)

	require.Nil(t, b.Add(part(0, 2)))
	got = b.Add(part(3, 4))
	require.False(t, got.Complete, "a part is missing")
	require.Empty(t, got.Calls)
}

func TestKinds(t *testing.T) {
	check := func(name, op string, want Kind) {
		t.Helper()
		require.Equal(t, want, KindOf(name, op), name)
	}
	check("_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE", "", AllReduce)
	check("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "", AllGather)
	check("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "", ReduceScatter)
	check("ncclDevKernel_SendRecv", "", NotComparable)
	check("ncclDevKernel_Broadcast_RING_LL", "", NotComparable)
	check("ncclDevKernel_Reduce_Sum_f32_RING_LL", "", NotComparable)
	check("void cross_device_reduce_1stage<__nv_bfloat16, 2>", "", AllReduce)
	check("one_shot_all_reduce_kernel", "", AllReduce)
	check("deep_ep::intranode::dispatch<4, 8>", "", NotComparable)
	check("deep_ep::internode_ll::combine", "", NotComparable)
	check("sm100_fp8_fp4_mega_moe_impl", "dsv41_mega_moe_e384", Meeting)
	check("my_exchange", "", Unknown)
}

// Shapes with equal content are one; groups keep them apart, and Work does not know groups or grids.
func TestShapesAreInterned(t *testing.T) {
	s := NewShapes()
	of := func(group string, grid uint32) *Shape {
		return s.Of(&chunk.Shape{Positions: []chunk.Position{{Name: "ncclAllReduce", Class: comm, Group: group, Grid: [3]uint32{grid, 1, 1}}}})
	}
	a := of("tp:0", 1)
	require.Same(t, a, of("tp:0", 1))
	require.Same(t, a, of("tp:0", 2))
	b := of("tp:1", 1)
	require.NotSame(t, a, b)
	require.Equal(t, a.Work, b.Work)
}

func BenchmarkAdd(b *testing.B) {
	var kernels []at
	t := uint64(1000)
	for i := range 660 {
		class := chunk.Class(compute)
		if i%15 == 14 {
			class = comm
		}
		kernels = append(kernels, at{class, t, t + 5000})
		t += 6000
	}
	s := packed(kernels...)
	builder := Builder{Shapes: NewShapes()}
	b.ReportAllocs()
	for b.Loop() {
		builder.Add(s)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(kernels)), "ns/kernel")
}

// TestAStepThatWasNotTracedHasNoDigest: nobody knows its kernels.
func TestAStepThatWasNotTracedHasNoDigest(t *testing.T) {
	b := Builder{Shapes: NewShapes()}
	require.Nil(t, b.Add(&chunk.Step{Seq: 7, Pairs: true, Untraced: true, Last: true}))
	require.NotNil(t, b.Add(&chunk.Step{Seq: 7, Pairs: true, Reason: "missing_records", Last: true}))
}
