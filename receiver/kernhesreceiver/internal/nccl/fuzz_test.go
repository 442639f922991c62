package nccl

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// FuzzFollower gives any events to a Follower. Whatever they are, what it keeps is bounded, and it says nothing of a thread
// that has nothing open.
func FuzzFollower(f *testing.F) {
	for _, name := range []string{"every_kind", "tp2.rank1"} {
		b, err := os.ReadFile("../../../../internal/wire/testdata/seeds/" + name)
		require.NoError(f, err)
		for len(b) >= wire.HeaderSize {
			n := wire.HeaderSize + int(le.Uint32(b))
			if wire.Kind(le.Uint16(b[4:])) == wire.KindEvents {
				f.Add(b[wire.HeaderSize:n])
			}
			b = b[n:]
		}
	}
	f.Add(groupSeed(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := New()
		n.Domain(0, Name)
		launches := uint32(0)
		err := wire.Events(b, func(e wire.Event) {
			switch e.Kind() {
			case wire.EventDomain:
				_, text := e.Text()
				n.Domain(e.Domain(), string(text))
			case wire.EventPush:
				_, text := e.Text()
				n.Push(e.Thread(), string(text), e.Depth())
			case wire.EventPop:
				for _, j := range n.Pop(e.Thread(), e.Depth()) {
					require.NotZero(t, j.Call)
					n.Call(j.Call)
				}
			case wire.EventLaunch:
				launches++
				require.True(t, n.Launch(e.Thread(), e.Correlation()) == 0 || n.threads[e.Thread()] != nil)
			case wire.EventNodeCreated:
				n.Call(n.Node(e.Thread(), e.Node(), e.InLaunch()))
			case wire.EventSchema:
				n.Schema(e)
			case wire.EventPayload:
				n.Payload(e)
			}
		})
		if err != nil {
			require.ErrorIs(t, err, wire.ErrBadFrame)
		}
		for _, thread := range n.threads {
			require.LessOrEqual(t, len(thread.open), MaxDepth)
			require.LessOrEqual(t, len(thread.group.made), MaxJoin)
		}
		if w := n.World(); w.OK {
			require.Greater(t, w.Ranks, 0)
			require.Less(t, w.Rank, w.Ranks)
		}
	})
}

// groupSeed is the events of an initialisation and a group, as they lie on the wire, in the default domain.
func groupSeed(f *testing.F) (b []byte) {
	event := func(kind uint16, payload []byte) {
		for len(payload)%8 != 0 {
			payload = append(payload, 0)
		}
		b = le.AppendUint16(b, kind)
		b = le.AppendUint16(b, uint16(16+len(payload)))
		b = append(le.AppendUint64(le.AppendUint32(b, 1), 1), payload...)
	}
	u32 := func(values ...uint32) (b []byte) {
		for _, v := range values {
			b = le.AppendUint32(b, v)
		}
		return b
	}
	push := func(text string) { event(1, append(u32(0, 0, uint32(len(text)), 1), text...)) }
	schema := func(id uint64, names ...string) {
		var list []byte
		for i, name := range names {
			list = append(list, append(u32(18, 0, 0, 0, uint32(8*i), 0, 0, 0, uint32(len(name)), 0), name...)...)
			for len(list)%8 != 0 {
				list = append(list, 0)
			}
		}
		event(12, append(append(le.AppendUint64(nil, id), u32(0, uint32(8*len(names)), 0, uint32(len(list)), uint32(len(names)), 1)...), list...))
	}
	payload := func(site uint32, id uint64, values ...uint64) {
		p := append(u32(0, 0, 0, 1), le.AppendUint64(nil, id)...)
		p = append(p, u32(uint32(8*len(values)), uint32(8*len(values)), site, 0)...)
		for _, v := range values {
			p = le.AppendUint64(p, v)
		}
		event(13, p)
	}
	schema(static, "NCCL communicator ID", "No. of ranks", "Rank")
	schema(static+5, "NCCL communicator ID", "Message size [bytes]")
	push("ncclCommInitRank")
	payload(2, static, 0xa, 2, 1)
	event(2, u32(0, 0))
	push("ncclGroupStart")
	event(2, u32(0, 0))
	push("ncclAllReduce")
	payload(1, static+5, 0xa, 64)
	event(2, u32(0, 0))
	push("ncclGroupEnd")
	event(5, u32(9, 0))
	event(7, u32(1, 7, 1, 0))
	event(2, u32(0, 0))
	return b
}
