package fleet

import (
	"math"
	"math/rand/v2"
	"sort"
)

// The quantiles below are of two recordings in testdata/recordings, solo.rank0 and tp2.rank0:
// decode graphs of a decoder shaped as Qwen3-4B, under software tracing of an H200. Each of six
// shapes of step was replayed 60 times. A position is a kernel of the graph in steps of one shape;
// NCCL's kernels, and gaps beside them, do not count. In tp2.rank1 another matrix product disturbs
// the steps, so it is left out. TestJitterIsTheRecordings measures all anew.
var quantiles = []float64{0, .001, .01, .05, .25, .5, .75, .9, .95, .99, .999, .9999, 1}

// A class is how kernels of one length vary: their time relative to the median of the position.
type class struct {
	below float64 // medians, ns
	ratio []float64
}

// The shorter a kernel is, the more it varies.
var kernelJitter = []class{
	{3_000, []float64{.769, .851, .886, .961, .989, 1, 1.012, 1.026, 1.049, 1.136, 1.640, 1.858, 1.976}},
	{8_000, []float64{.911, .938, .952, .961, .984, 1, 1.016, 1.041, 1.072, 1.211, 1.294, 1.349, 1.378}},
	{20_000, []float64{.917, .966, .977, .985, .993, 1, 1.009, 1.049, 1.087, 1.147, 1.171, 1.185, 1.193}},
	{math.Inf(1), []float64{.943, .949, .957, .972, .992, 1, 1.010, 1.027, 1.038, 1.053, 1.065, 1.076, 1.084}},
}

// Gaps between kernels of a graph, ns: the median of a position, and what one replay adds to it.
// The recordings also have kernels that overlap the one before; here gaps last a tick at least.
var (
	gapMedians = []float64{32, 97, 128, 256, 416, 416, 448, 672, 800, 928, 993, 1088, 1088}
	gapJitter  = []float64{-384, -257, -96, -32, -1, 0, 32, 160, 224, 257, 1088, 1280, 1504}
)

// at is the value of a table at a quantile p in [0, 1), interpolated between its entries.
func at(table []float64, p float64) float64 {
	i := sort.SearchFloat64s(quantiles, p)
	if i == 0 {
		return table[0]
	}
	part := (p - quantiles[i-1]) / (quantiles[i] - quantiles[i-1])
	return table[i-1] + part*(table[i]-table[i-1])
}

// jittered is a time of a median of ns, in whole ticks.
func (f *Fleet) jittered(r *rank, ns int64) int64 {
	if f.Jitter == 0 {
		return ticks(float64(ns))
	}
	i := 0
	for float64(ns) >= kernelJitter[i].below {
		i++
	}
	return ticks(float64(ns) * (1 + f.Jitter*(at(kernelJitter[i].ratio, r.rng.Float64())-1)))
}

// gap is the time from a kernel of a graph to the next, in whole ticks. Its median belongs to the
// position of the next: it is the same on all ranks and in all replays.
func (f *Fleet) gap(rng *rand.Rand, position int) int64 {
	if f.Jitter == 0 {
		return graphGap
	}
	_, spread := math.Modf(float64(position) * math.Phi) // even over [0, 1), and near ones differ
	return ticks(at(gapMedians, spread) + f.Jitter*at(gapJitter, rng.Float64()))
}
