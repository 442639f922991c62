package shimscript

import (
	"fmt"

	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
)

// GraphSteps are the frames of decode steps that each replay one graph of 560 kernels, as a recording of one has them:
// 72 of them all-reduces, each in a call.
func GraphSteps(steps int) (frames [][]byte, kernels, bytes int) {
	b := krec.NewBuilder()
	g := b.Capture()
	for i := range 560 {
		b.Push(fmt.Sprintf("decode.layers.%d.mlp", i/8))
		name := fmt.Sprintf("nvjet_sm90_tst_%dx128_64x5_1x2_h_bz_coopB_NNT", i%23)
		if i%8 == 7 {
			name = "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"
		}
		g.Kernel(name, 7)
		b.Pop()
	}
	exec := g.Instantiate()
	for i := range steps {
		b.Push(fmt.Sprintf("step:decode seq=%d,seqs=8,tokens=8,kv=8192", i))
		exec.Launch(5_000, 6_000, 500)
		b.Pop()
		b.Wait(3_800_000)
	}
	frames = fakeshim.Frames(b.Recording(), fakeshim.Options{Deliver: fakeshim.Flush})
	for _, f := range frames {
		bytes += len(f)
	}
	return frames, 560 * steps, bytes
}
