package krec

// A Story is a small recording made by hand: something that the real ones do not show.
type Story struct {
	Name      string
	Recording *Recording
}

// Stories are all of them.
func Stories() []Story {
	return []Story{
		{"all to all", AllToAll()}, {"streams", Streams()}, {"disorder", Disorder()}, {"overlap", Overlap()},
		{"graph copies", GraphCopies()}, {"recapture", Recapture()}, {"two devices", TwoDevices()},
		{"two threads", TwoThreads()}, {"wrap", Wrap()}, {"lost", Lost()}, {"bad times", BadTimes()},
		{"payloads", Payloads()}, {"groups", Groups()}, {"odd payloads", OddPayloads()},
	}
}

// Names that the stories use.
const (
	gemm      = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
	norm      = "_ZN4vllm15rms_norm_kernelIN3c108BFloat16EEEvPT_PKS3_S5_fii"
	sendRecv  = "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE"
	allReduce = "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"
)

// AllToAll is a step of a mixture of experts: two all-to-alls on a stream of their own, the second for 6 of its 10 µs
// under an expert's GEMM.
func AllToAll() *Recording {
	b := NewBuilder()
	b.Push("step:decode seq=1,seqs=4,tokens=4,kv=4096")
	b.Push("decode.layers.0.experts.dispatch")
	b.Run(sendRecv, 13, 5_000, 20_000)
	b.Pop()
	b.Push("decode.layers.0.experts")
	b.Run(gemm, 7, 30_000, 40_000)
	b.Pop()
	b.PushIn("NCCL", "ncclGroupEnd") // names no call
	b.Push("decode.layers.0.experts.combine")
	b.Run(sendRecv, 13, 60_000, 10_000)
	b.Pop()
	b.PopIn("NCCL")
	b.Pop()
	b.Wait(1e6)
	return b.Recording()
}

// Streams is one step on three streams, its kernels delivered stream by stream and so not in order of start.
func Streams() *Recording {
	b := NewBuilder()
	b.Push("step:prefill seq=1,seqs=1,tokens=300,kv=300")
	for _, stream := range []uint32{7, 13, 17} {
		for i := range uint64(3) {
			b.Run(gemm, stream, 2_000*i+uint64(stream)*100, 1_500)
		}
	}
	b.Run(norm, 7, 50_000, 1_000) // launched in the step, without a call
	b.Pop()
	b.Wait(1e6)
	b.Deliver(6, 7, 8, 0, 3, 1, 4, 2, 5, 9)
	return b.Recording()
}

// Disorder is three steps of one kernel each whose buffers arrive in the order 3, 1, 2.
func Disorder() *Recording {
	b := NewBuilder()
	var buffers []*Raw
	for _, text := range []string{"step:decode seq=7,tokens=1,kv=64", "step:decode seq=8,tokens=1,kv=65", "step:decode tokens=1,kv=66,seq=9"} {
		b.Push(text)
		b.Run(gemm, 7, 10_000, 5_000)
		b.Pop()
		b.Wait(200_000)
		buffers = append(buffers, &Raw{Records: b.waiting})
		b.waiting = nil
	}
	for _, i := range []int{2, 0, 1} {
		b.add(buffers[i])
	}
	return b.Recording()
}

// Overlap is two steps of which the second begins before the first one's last kernel ends, and a kernel outside any
// step: foreign to the second for 3 µs.
func Overlap() *Recording {
	b := NewBuilder()
	b.Push("step:decode seq=1")
	b.Run(gemm, 7, 10_000, 100_000)
	b.Pop()
	b.Push("step:decode seq=2")
	b.Run(gemm, 13, 50_000, 100_000)
	b.Pop()
	b.Run(norm, 17, 120_000, 3_000)
	b.Wait(1e6)
	return b.Recording()
}

// GraphCopies is a graph of two kernels with a copy between them, launched in two steps.
func GraphCopies() *Recording {
	b := NewBuilder()
	g := b.Capture()
	b.Push("decode.layers.0.qkv")
	g.Kernel(gemm, 7)
	g.Copy(7)
	b.Pop()
	b.Push("decode.layers.0.norm")
	g.Kernel(norm, 7)
	b.Pop()
	exec := g.Instantiate()
	for _, text := range []string{"step:decode seq=1,tokens=1", "step:decode seq=2,tokens=1"} {
		b.Push(text)
		exec.Launch(5_000, 2_000, 500)
		b.Pop()
		b.Wait(50_000)
	}
	return b.Recording()
}

// Recapture is a graph that is launched, captured anew under other labels, updated, and launched again before the
// records of the first launch came: each keeps the labels of its time.
func Recapture() *Recording {
	b := NewBuilder()
	capture := func(label string) *Graph {
		g := b.Capture()
		b.Push(label)
		g.Kernel(gemm, 7)
		g.Kernel(norm, 7)
		b.Pop()
		return g
	}
	exec := capture("decode.first").Instantiate()
	b.Push("step:decode seq=1")
	exec.Launch(5_000, 2_000, 500)
	b.Pop()
	b.Wait(50_000)
	exec.Update(capture("decode.second"))
	b.Push("step:decode seq=2")
	exec.Launch(5_000, 2_000, 500)
	b.Pop()
	b.Wait(50_000)
	return b.Recording()
}

// TwoDevices is a process with two GPUs: each step launches a kernel on both.
func TwoDevices() *Recording {
	b := NewBuilder()
	for _, text := range []string{"step:decode seq=1,tokens=8", "step:decode seq=2,tokens=8"} {
		b.Push(text)
		for device := range uint32(2) {
			b.Device(device)
			b.Run(gemm, 7, 5_000, 10_000+1_000*uint64(device))
			b.Run(allReduce, 7, 20_000, 4_000)
		}
		b.Pop()
		b.Wait(100_000)
	}
	return b.Recording()
}

// TwoThreads is two steps open at the same time on two threads.
func TwoThreads() *Recording {
	b := NewBuilder()
	b.Thread(1)
	b.Push("step:prefill seq=1,tokens=512")
	b.Thread(2)
	b.Push("step:decode seq=2,tokens=4")
	b.Thread(1)
	b.Push("prefill.gemm")
	b.Run(gemm, 7, 5_000, 50_000)
	b.Thread(2)
	b.Push("decode.gemm")
	b.Run(gemm, 13, 5_000, 20_000)
	b.Thread(1)
	b.Pop()
	b.Pop()
	b.Thread(2)
	b.Pop()
	b.Run(norm, 13, 30_000, 2_000)
	b.Pop()
	b.Wait(1e6)
	return b.Recording()
}

// Wrap is steps over the wrap of correlation ids at 2^32, and an id that is used again a second later.
func Wrap() *Recording {
	b := NewBuilder()
	b.Correlate(1<<32 - 2)
	for _, text := range []string{"step:decode seq=1", "step:decode seq=2"} {
		b.Push(text)
		b.Run(gemm, 7, 5_000, 2_000)
		b.Run(norm, 7, 8_000, 2_000)
		b.Pop()
		b.Wait(20_000)
	}
	b.Wait(1e9)
	b.Correlate(1<<32 - 2)
	b.Push("step:decode seq=3")
	b.Run(allReduce, 7, 5_000, 2_000)
	b.Pop()
	b.Wait(20_000)
	b.Deliver(4, 3, 2, 1, 0)
	return b.Recording()
}

// Lost is a step of which an eager kernel's record never came, one of which a graph's did not, and a whole one.
func Lost() *Recording {
	b := NewBuilder()
	g := b.Capture()
	g.Kernel(gemm, 7)
	g.Kernel(norm, 7)
	exec := g.Instantiate()
	b.Push("step:decode seq=1")
	b.Run(gemm, 7, 5_000, 2_000)
	b.Launch()
	b.Pop()
	b.Push("step:decode seq=2")
	exec.Launch(5_000, 2_000, 500)
	b.waiting = b.waiting[:len(b.waiting)-1]
	b.Pop()
	b.Push("step:decode seq=3")
	exec.Launch(15_000, 2_000, 500)
	b.Pop()
	b.Wait(1e6)
	return b.Recording()
}

// BadTimes is a step with a kernel of start 0, one of end 0 and one that ends before it starts, beside a good one.
func BadTimes() *Recording {
	b := NewBuilder()
	b.Push("step:decode seq=1")
	b.Run(gemm, 7, 5_000, 2_000)
	b.Kernel(b.Launch(), norm, 7, 0, 0, b.now+9_000)
	b.Kernel(b.Launch(), norm, 7, 0, b.now+9_000, 0)
	b.Kernel(b.Launch(), norm, 7, 0, b.now+9_000, b.now+8_000)
	b.Pop()
	b.Wait(1e6)
	return b.Recording()
}
