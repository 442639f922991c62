package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/nccl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// groupsOf are the kernels of the steps in chunks as text: seq of the step, name, group, bytes.
func groupsOf(chunks []*chunk.Chunk) (all []string) {
	for _, c := range chunks {
		for i := range c.Steps {
			s := &c.Steps[i]
			for _, p := range s.Shape.Positions {
				name := "compute"
				for _, op := range []string{"AllReduce", "SendRecv"} {
					if strings.Contains(p.Name, op) {
						name = op
					}
				}
				all = append(all, fmt.Sprintf("%d %s %s %d", s.Seq, name, p.Group, p.Bytes))
			}
		}
	}
	return all
}

const (
	worldGroup = "nccl:feedc0de12345678"
	pairGroup  = "nccl:1111222233334444"
)

func TestKernelsHaveTheGroupAndBytesOfTheirCollective(t *testing.T) {
	for how, options := range deliveries {
		t.Run(how, func(t *testing.T) {
			p, chunks := playPacked(t, fakeshim.Frames(krec.Payloads(), options))
			booksHold(t, p)
			require.Equal(t, []string{
				"1 compute  0", "1 AllReduce " + worldGroup + " 4096", "1 AllReduce " + pairGroup + " 1024", "1 compute  0",
				"2 compute  0", "2 AllReduce " + worldGroup + " 4096", "2 AllReduce " + pairGroup + " 1024", "2 compute  0",
			}, groupsOf(chunks))
			require.Equal(t, nccl.World{CommID: krec.World, Rank: 2, Ranks: 4, Device: 0, OK: true}, p.nccl.World())
		})
	}
}

func TestLaunchesAtTheEndOfAGroup(t *testing.T) {
	p, chunks := playPacked(t, fakeshim.Frames(krec.Groups(), fakeshim.Options{Deliver: fakeshim.Flush}))
	booksHold(t, p)
	require.Equal(t, []string{
		"1 SendRecv " + worldGroup + " 768", "1 AllReduce " + pairGroup + " 1024", "1 AllReduce " + worldGroup + " 4096",
		"1 AllReduce  0", "1 AllReduce  0", // in which order they are launched depends on the version of NCCL
		"1 SendRecv " + worldGroup + " 768",
	}, groupsOf(chunks))
}

func TestPayloadsThatCannotBeRead(t *testing.T) {
	p, chunks := playPacked(t, fakeshim.Frames(krec.OddPayloads(), fakeshim.Options{Deliver: fakeshim.Flush}))
	booksHold(t, p)
	require.Equal(t, []string{"1 AllReduce  0", "1 AllReduce  0", "1 AllReduce  0", "1 AllReduce  0", "1 AllReduce " + worldGroup + " 64"}, groupsOf(chunks))
	require.Zero(t, p.ranges.Counts.Underflow+p.ranges.Counts.Resynced)
	require.False(t, p.nccl.World().OK)
}

// TestAnInitialisationIsPoppedWithItsPayload: a shim that takes pops with a payload leaves no range open, one that does not
// leaves the initialisation's. Neither changes a figure of the steps.
func TestAnInitialisationIsPoppedWithItsPayload(t *testing.T) {
	recording := krec.Payloads()
	whole, steps, err := play(fakeshim.Frames(recording, fakeshim.Options{}), nil)
	require.NoError(t, err)
	var kept []krec.Frame
	leaked := uint32(0)
	for _, f := range recording.Clone().Frames {
		switch f := f.(type) {
		case *krec.Push:
			if f.Domain != 0 {
				f.Depth += leaked
			}
		case *krec.Pop:
			if f.Payload != nil {
				leaked++
				continue
			}
			if f.Domain != 0 {
				f.Depth += leaked
			}
		}
		kept = append(kept, f)
	}
	old, oldSteps, err := play(fakeshim.Frames(&krec.Recording{Frames: kept}, fakeshim.Options{}), nil)
	require.NoError(t, err)
	require.Len(t, steps, 2)
	require.Equal(t, rows(steps, 0), rows(oldSteps, 0))
	require.Equal(t, []step.Message{{Group: worldGroup, Bytes: 4096, Kernels: 1}, {Group: pairGroup, Bytes: 1024, Kernels: 1}}, steps[1].Messages)
	require.Equal(t, &NCCLReport{Comm: "feedc0de12345678", Rank: 2, Ranks: 4, Payloads: 5}, whole.Reports()[0].NCCL)
	require.Equal(t, &NCCLReport{Comm: "0000000000000000", Rank: -1, Device: -1, Open: 2, Payloads: 3}, old.Reports()[0].NCCL)
	require.Zero(t, whole.ranges.Counts.Resynced)
	require.True(t, whole.nccl.World().OK)
	require.False(t, old.nccl.World().OK)
}

// TestASnapshotHasPayloads: a collector that starts anew knows the world, and what pinned nodes and open ranges communicate.
func TestASnapshotHasPayloads(t *testing.T) {
	s := newScript(t)
	s.p = begin(testSettings(archived), wire.Hello{Version: 1, Session: 0xabc})
	var chunks []*chunk.Chunk
	take := func() {
		for _, one := range s.p.TakeChunks() {
			c, err := chunk.Unpack(one.Body)
			require.NoError(t, err)
			chunks = append(chunks, c)
		}
	}
	s.Pinned = true
	const schema, domain = 1<<24 + 5, 4
	const kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
	s.Frame(wire.KindStrings, append(u32(1, uint32(len(kernel))), kernel...))
	entry := func(kind, at uint64, name string) []byte {
		b := append(append(u64(kind, 0, at, 0), u32(uint32(len(name)), 0)...), name...)
		return append(b, make([]byte, -len(b)&7)...)
	}
	collective := append(entry(18, 0, "NCCL communicator ID"), entry(22, 8, "Message size [bytes]")...)
	world := append(append(entry(18, 0, "NCCL communicator ID"), entry(5, 8, "No. of ranks")...), entry(5, 12, "Rank")...)
	s.Event(wire.EventDomain, 0, 0, u32(domain, 4), "NCCL")
	s.Event(wire.EventSchema, 0, 0, append(append(u64(schema), u32(domain, 16, 0, uint32(len(collective)), 2, 1)...), collective...), "")
	s.Event(wire.EventSchema, 0, 0, append(append(u64(schema+1), u32(domain, 16, 0, uint32(len(world)), 3, 1)...), world...), "")
	payload := func(thread, site uint32, schema uint64, data []byte) {
		head := append(append(append(u64(0), u32(domain, 1)...), u64(schema)...), u32(uint32(len(data)), uint32(len(data)), site, 0)...)
		s.Event(wire.EventPayload, thread, 0, append(head, data...), "")
	}
	s.Event(wire.EventPush, wire.ThreadLabels, 0, u32(domain, 0, 16, 1), "ncclCommInitRank")
	payload(wire.ThreadLabels, 2, schema+1, append(u64(krec.World), u32(8, 3)...))
	s.Event(wire.EventPop, wire.ThreadLabels, 0, u32(domain, 0), "")
	s.Event(wire.EventPush, 1, 0, u32(domain, 0, 13, 1), "ncclAllReduce")
	payload(1, 1, schema, u64(krec.Pair, 64))
	s.Event(wire.EventPush, wire.ThreadLabels, 0, u32(domain, 0, 13, 1), "ncclAllReduce")
	payload(wire.ThreadLabels, 1, schema, u64(krec.World, 4096))
	s.Event(wire.EventNodeCreated, wire.ThreadLabels, 0, append(u64(6<<32), u32(1, 0)...), "")
	s.Event(wire.EventPop, wire.ThreadLabels, 0, u32(domain, 0), "")
	s.Base(100, 20)
	require.Equal(t, nccl.World{CommID: krec.World, Rank: 3, Ranks: 8, Device: -1, OK: true}, s.p.nccl.World())
	require.Equal(t, nccl.Call{Comm: krec.Pair, Bytes: 64}, s.p.nccl.Call(s.p.nccl.Launch(1, 30)))
	require.Zero(t, s.p.nccl.Launch(wire.ThreadLabels, 31))
	s.Push(1, "step:decode seq=5")
	s.GraphLaunch(12, 21)
	s.Launch(13, 22)
	s.Record(21, 1, 6<<32, us(20), us(30))
	s.Record(22, 1, 0, us(31), us(33))
	s.Pop(40)
	s.Flushed(1000)
	s.bye()
	take()
	require.Equal(t, []string{"5 AllReduce " + worldGroup + " 4096", "5 AllReduce " + pairGroup + " 64"}, groupsOf(chunks))
}
