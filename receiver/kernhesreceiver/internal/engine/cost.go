package engine

import "github.com/kernhes/kernhes/internal/wire"

// kernelCost is what CUPTI takes of the engine for a kernel, in ns, by tracing mode; none in others.
var kernelCost = map[string]uint64{
	"software": 1200, // docs/gpu.md: 0.9 to 1.6 µs a kernel of a graph on an H200
	"windows":  1200, // the same in a window
	"hes":      260,  // reported: 115 µs a decode step of some 437 graph launches; not measured by us
}

// A taken is a device's kernels by the mode in which they came, in terms of what CUPTI took for them.
type taken struct {
	kernels uint64 // those before the last change of mode
	cost    uint64 // of those, ns
}

// in takes it that all kernels since the last change came in a mode.
func (t *taken) in(mode string, kernels uint64) taken {
	return taken{kernels, t.cost + kernelCost[mode]*(kernels-t.kernels)}
}

// shimCost is the time of the engine's threads in the shim, as its statistics say, ns.
func ShimCost(stats map[uint32]uint64) uint64 {
	return stats[wire.StatCallbackTime] + stats[wire.StatRangeTime]
}
