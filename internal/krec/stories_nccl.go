package krec

// Communicators of the stories.
const (
	World = 0xfeedc0de12345678 // of 4 ranks, of which the process is rank 2 on device 0
	Pair  = 0x1111222233334444 // of 2 ranks, split from it
)

// Payloads is NCCL as version 2.28 tells of itself: the world and a pair are made, an all-reduce of 4 KiB is captured with a
// GEMM and replayed in two steps, and in each step one of 1 KiB is launched eagerly on the pair. No range is left open.
func Payloads() *Recording {
	b := NewBuilder()
	b.NCCL()
	b.CommInit(World, 4, 2, 0)
	b.CommSplit(Pair, World, 2, 0, 0)
	g := b.Capture()
	b.Push("decode.mlp")
	g.Kernel(gemm, 7)
	b.Pop()
	b.Push("decode.reduce")
	b.Collective("ncclAllReduce", World, 4096)
	g.Kernel(allReduce, 7)
	b.PopIn(ncclDomain)
	b.Pop()
	exec := g.Instantiate()
	for _, text := range []string{"step:decode seq=1,tokens=4", "step:decode seq=2,tokens=4"} {
		b.Push(text)
		exec.Launch(5_000, 2_000, 500)
		b.Push("decode.pair")
		b.Collective("ncclAllReduce", Pair, 1024)
		b.Run(allReduce, 7, 20_000, 3_000)
		b.Run(norm, 7, 24_000, 1_000) // launched in the range, but no communication
		b.PopIn(ncclDomain)
		b.Pop()
		b.Pop()
		b.Wait(100_000)
	}
	return b.Recording()
}

// Groups is a step with groups of calls, each launched when the group ends: a send and a receive in one launch; two
// communicators of which the first has the lower id; the same in the other order; and the first one captured, and replayed.
func Groups() *Recording {
	b := NewBuilder()
	b.NCCL()
	b.CommInit(World, 4, 2, 0)
	call := func(text string, comm uint64, bytes uint32) {
		b.Collective(text, comm, bytes)
		b.PopIn(ncclDomain)
	}
	exchange := func() {
		call("ncclSend", World, 512)
		call("ncclRecv", World, 256)
	}
	g := b.Capture()
	b.Group(exchange)
	g.Kernel(sendRecv, 13)
	b.PopIn(ncclDomain)
	exec := g.Instantiate()
	b.Push("step:decode seq=1,tokens=4")
	b.Group(exchange)
	b.Run(sendRecv, 13, 5_000, 2_000)
	b.PopIn(ncclDomain)
	b.Group(func() { call("ncclAllReduce", Pair, 1024); call("ncclAllReduce", World, 4096) })
	b.Run(allReduce, 13, 10_000, 2_000)
	b.Run(allReduce, 13, 13_000, 2_000)
	b.PopIn(ncclDomain)
	b.Group(func() { call("ncclAllReduce", World, 4096); call("ncclAllReduce", Pair, 1024) })
	b.Run(allReduce, 13, 20_000, 2_000)
	b.Run(allReduce, 13, 23_000, 2_000)
	b.PopIn(ncclDomain)
	exec.Launch(30_000, 2_000, 500)
	b.Pop()
	b.Wait(1e6)
	return b.Recording()
}

// OddPayloads is a step whose collectives have payloads of which four cannot be read: of an unknown schema, cut inside the
// message size, in a domain that is not NCCL's, and without bytes. The fifth comes with the extension's own push, which has no
// text. None of them loses a range.
func OddPayloads() *Recording {
	b := NewBuilder()
	b.NCCL()
	b.Schema("other", Schema{ID: ncclReduce, Size: 8, Type: 1, Entries: []SchemaEntry{{Type: nvtxUint64, Name: "NCCL communicator ID"}}})
	b.Push("step:decode seq=1,tokens=4")
	run := func(domain, text string, p Payload, after uint64) {
		b.PushWith(domain, text, p)
		b.Run(allReduce, 7, after, 1_000)
		b.PopWith(domain, p)
	}
	run(ncclDomain, "ncclAllReduce", Payload{ncclStatic + 99, WayAttributes, ncclData(24, World, 64)}, 5_000)
	run(ncclDomain, "ncclAllReduce", Payload{ncclReduce, WayAttributes, ncclData(12, World, 64)}, 10_000)
	run("other", "ncclAllReduce", Payload{ncclReduce, WayAttributes, ncclData(8, World)}, 15_000)
	run(ncclDomain, "ncclAllReduce", Payload{ncclReduce, WayAttributes, nil}, 20_000)
	run(ncclDomain, "", Payload{ncclReduce, WayFunction, ncclData(24, World, 64)}, 25_000)
	b.Pop()
	b.Wait(1e6)
	return b.Recording()
}
