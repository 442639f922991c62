package nccl

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

const (
	domain = 3
	static = 1 << 24
)

var le = binary.LittleEndian

// An engine makes the events of a process, byte by byte, and gives them to a Follower.
type engine struct {
	*Follower
	t      *testing.T
	depths map[uint32]uint32
	joins  []Joined
}

func newEngine(t *testing.T) *engine {
	e := &engine{New(), t, map[uint32]uint32{}, nil}
	e.Domain(1, "other")
	e.Domain(domain, "NCCL")
	return e
}

// event gives an event out of its kind, its thread and its payload.
func (e *engine) event(kind uint16, thread uint32, payload []byte) {
	for len(payload)%8 != 0 {
		payload = append(payload, 0)
	}
	b := le.AppendUint16(nil, kind)
	b = le.AppendUint16(b, uint16(16+len(payload)))
	b = le.AppendUint32(b, thread)
	b = append(le.AppendUint64(b, 1), payload...)
	require.NoError(e.t, wire.Events(b, func(ev wire.Event) {
		if ev.Kind() == wire.EventSchema {
			e.Schema(ev)
		} else {
			e.Payload(ev)
		}
	}))
}

// An entry of a schema.
type entry struct {
	typ, flags, offset uint64
	name               string
}

func (e *engine) schema(id uint64, size, pack, typ uint32, entries ...entry) {
	var list []byte
	for _, n := range entries {
		for _, v := range []uint64{n.typ, n.flags, n.offset, 0} {
			list = le.AppendUint64(list, v)
		}
		list = le.AppendUint32(list, uint32(len(n.name)))
		list = append(le.AppendUint32(list, 0), n.name...)
		for len(list)%8 != 0 {
			list = append(list, 0)
		}
	}
	b := le.AppendUint64(nil, id)
	for _, v := range []uint32{domain, size, pack, uint32(len(list)), uint32(len(entries)), typ} {
		b = le.AppendUint32(b, v)
	}
	e.event(12, 1, append(b, list...))
}

func (e *engine) payload(site wire.EventKind, thread, depth uint32, id uint64, data []byte) {
	b := le.AppendUint64(nil, 0)
	b = le.AppendUint32(le.AppendUint32(b, domain), depth)
	b = le.AppendUint64(b, id)
	for _, v := range []uint32{uint32(len(data)), uint32(len(data)), uint32(site), 0} {
		b = le.AppendUint32(b, v)
	}
	e.event(13, thread, append(b, data...))
}

func (e *engine) push(thread uint32, text string) {
	e.depths[thread]++
	e.Push(thread, text, e.depths[thread])
}

func (e *engine) pop(thread uint32) {
	if e.depths[thread] > 0 {
		e.depths[thread]--
	}
	e.joins = append(e.joins, e.Pop(thread, e.depths[thread])...)
}

// Schemas as NCCL 2.28 registers them.
func (e *engine) nccl() *engine {
	e.schema(static+24, 4, 0, wire.SchemaEnum, entry{0, 0, 0, "Sum"})
	e.schema(static+11, 24, 0, 1, entry{18, 0, 0, "NCCL communicator ID"}, entry{5, 0, 8, "No. of ranks"}, entry{5, 0, 12, "Rank"}, entry{5, 0, 16, "CUDA device"})
	e.schema(static+1, 16, 0, 1, entry{18, 0, 0, "NCCL communicator ID"}, entry{5, 0, 8, "No. of devices"})
	e.schema(static+5, 24, 0, 1, entry{18, 0, 0, "NCCL communicator ID"}, entry{22, 0, 8, "Message size [bytes]"}, entry{static + 24, 0, 16, "Reduction operation"})
	return e
}

func words(comm uint64, ints ...uint32) []byte {
	b := le.AppendUint64(nil, comm)
	for _, v := range ints {
		b = le.AppendUint32(b, v)
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// initialise makes a communicator on thread 1.
func (e *engine) initialise(text string, comm uint64, ranks, rank, device uint32) {
	e.push(1, text)
	e.payload(wire.EventPop, 1, e.depths[1], static+11, words(comm, ranks, rank, device))
	e.pop(1)
}

// call opens an all-reduce on a thread.
func (e *engine) call(thread uint32, comm, bytes uint64) {
	e.push(thread, "ncclAllReduce")
	e.payload(wire.EventPush, thread, e.depths[thread], static+5, le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, comm), bytes), 0))
}

func TestTheWorldIsTheInitialisationWithTheMostRanks(t *testing.T) {
	e := newEngine(t).nccl()
	require.Equal(t, World{}, e.World())
	e.initialise("ncclCommInitRankConfig", 0xa, 2, 1, 3)
	require.Equal(t, World{CommID: 0xa, Rank: 1, Ranks: 2, Device: 3, OK: true}, e.World(), "the only one so far")
	e.initialise("ncclCommInitRank", 0xb, 8, 5, 3)
	require.Equal(t, World{CommID: 0xb, Rank: 5, Ranks: 8, Device: 3, OK: true}, e.World())
	e.initialise("ncclCommInitRankScalable", 0xc, 8, 6, 3)
	e.initialise("ncclCommSplit", 0xd, 16, 1, 3)
	e.initialise("ncclCommShrink", 0xe, 16, 1, 3)
	e.initialise("ncclCommAbort", 0xf, 16, 1, 3)
	e.initialise("ncclCommInitRank", 0x10, 16, 16, 3)
	e.initialise("ncclCommInitRank", 0x11, 0xffffffff, 0, 3)
	e.initialise("ncclCommInitRank", 0x12, 0, 0, 3)
	require.Equal(t, uint64(0xb), e.World().CommID, "the first of equals; splits and what cannot be are none")
	rank, ok := e.RankOf(3)
	require.True(t, ok)
	require.Equal(t, 5, rank)
	_, ok = e.RankOf(0)
	require.False(t, ok)
}

func TestAProcessOfSeveralDevicesHasARankForEach(t *testing.T) {
	e := newEngine(t).nccl()
	for device := range uint32(2) {
		e.initialise("ncclCommInitRank", 0xa, 4, 2+device, device)
	}
	require.Equal(t, World{CommID: 0xa, Rank: 2, Ranks: 4, Device: 0, OK: true}, e.World())
	rank, ok := e.RankOf(1)
	require.True(t, ok)
	require.Equal(t, 3, rank)

	e = newEngine(t).nccl()
	e.push(1, "ncclCommInitAll")
	e.payload(wire.EventPop, 1, 1, static+1, words(0xb, 4))
	e.pop(1)
	require.Equal(t, World{CommID: 0xb, Rank: -1, Ranks: 4, Device: -1, OK: true}, e.World(), "which rank a device is is not said")
	_, ok = e.RankOf(-1)
	require.False(t, ok)
}

func TestAnOlderVersionSaysItWithThePushAndWithoutAnID(t *testing.T) {
	e := newEngine(t)
	e.schema(static, 12, 0, 1, entry{5, 0, 0, "No. of ranks"}, entry{5, 0, 4, "Rank"}, entry{5, 0, 8, "CUDA device"})
	e.schema(static+4, 8, 0, 1, entry{22, 0, 0, "Message size [bytes]"})
	e.push(1, "ncclCommInitRank")
	e.payload(wire.EventPush, 1, 1, static, []byte{4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0})
	e.pop(1)
	require.Equal(t, World{Rank: 1, Ranks: 4, Device: 1, OK: true}, e.World())
	e.push(1, "ncclAllGather")
	e.payload(wire.EventPush, 1, 1, static+4, le.AppendUint64(nil, 4096))
	require.Equal(t, Call{Bytes: 4096}, e.Follower.Call(e.Launch(1, 9)))
}

func TestALaunchIsOfTheInnermostCall(t *testing.T) {
	e := newEngine(t).nccl()
	require.Zero(t, e.Launch(1, 1))
	e.call(1, 0xa, 1024)
	one := e.Launch(1, 2)
	require.Equal(t, Call{0xa, 1024}, e.Follower.Call(one))
	require.Equal(t, one, e.Node(1, 1<<32, true))
	require.Zero(t, e.Launch(2, 3), "another thread")
	e.push(1, "inner")
	require.Equal(t, one, e.Launch(1, 4), "a range without a payload hides none")
	e.pop(1)
	e.call(1, 0xa, 2048)
	require.Equal(t, Call{0xa, 2048}, e.Follower.Call(e.Launch(1, 5)))
	e.pop(1)
	require.Equal(t, one, e.Launch(1, 6))
	e.pop(1)
	require.Zero(t, e.Launch(1, 7))
	require.Empty(t, e.threads)
	e.call(1, 0xa, 1024)
	require.Equal(t, one, e.Launch(1, 8), "what repeats has one id")
}

func TestAGroupIsJoinedWhereItIsUnambiguous(t *testing.T) {
	type launch struct {
		correlation uint32
		nodes       []uint64
	}
	eager := func(n int) (all []launch) {
		for i := range n {
			all = append(all, launch{correlation: uint32(100 + i)})
		}
		return all
	}
	check := func(name string, calls []Call, launches []launch, want ...string) {
		t.Helper()
		e := newEngine(t).nccl()
		e.push(1, "ncclGroupStart")
		e.pop(1)
		for _, c := range calls {
			e.call(1, c.Comm, c.Bytes)
			e.pop(1)
		}
		e.push(1, "ncclGroupEnd")
		for _, l := range launches {
			require.Zero(t, e.Launch(1, l.correlation), "not known before the group is over")
			for _, n := range l.nodes {
				require.Zero(t, e.Node(1, n, true))
			}
		}
		e.pop(1)
		var got []string
		for _, j := range e.joins {
			c := e.Follower.Call(j.Call)
			got = append(got, fmt.Sprintf("%d/%d %x %d", j.Correlation, j.Node, c.Comm, c.Bytes))
		}
		require.Equal(t, want, got, name)
	}
	check("one call", []Call{{0xa, 64}}, eager(1), "100/0 a 64")
	check("sends and receives in one launch", []Call{{0xa, 64}, {0xa, 32}, {0xa, 32}}, eager(1), "100/0 a 128")
	check("as many launches as equal calls", []Call{{0xa, 64}, {0xa, 64}}, eager(2), "100/0 a 64", "101/0 a 64")
	check("as many launches as calls of other sizes", []Call{{0xa, 64}, {0xa, 32}}, eager(2), "100/0 a 0", "101/0 a 0")
	check("fewer launches than calls", []Call{{0xa, 64}, {0xa, 64}, {0xa, 64}}, eager(2), "100/0 a 0", "101/0 a 0")
	check("communicators in order of their ids", []Call{{0xa, 64}, {0xb, 32}, {0xa, 1}}, eager(2), "100/0 a 65", "101/0 b 32")
	check("communicators in another order", []Call{{0xb, 32}, {0xa, 64}}, eager(2))
	check("of other order but equal sizes", []Call{{0xb, 32}, {0xa, 32}}, eager(2), "100/0 0 32", "101/0 0 32")
	check("several launches of one communicator", []Call{{0xa, 64}, {0xb, 32}}, eager(3))
	check("without a call", nil, eager(1))
	check("without a launch", []Call{{0xa, 64}}, nil)
	check("captured", []Call{{0xa, 64}}, []launch{{100, []uint64{7 << 32, 7<<32 | 1}}}, "100/0 a 64", fmt.Sprintf("0/%d a 64", 7<<32), fmt.Sprintf("0/%d a 64", 7<<32|1))
}

func TestNestedAndBrokenGroups(t *testing.T) {
	group := func(e *engine, text string) { e.push(1, text); e.pop(1) }
	end := func(e *engine) {
		e.push(1, "ncclGroupEnd")
		e.Launch(1, 9)
		e.pop(1)
	}
	e := newEngine(t).nccl()
	group(e, "ncclGroupStart")
	group(e, "ncclGroupStart")
	e.call(1, 0xa, 64)
	e.pop(1)
	group(e, "ncclGroupEnd")
	require.Empty(t, e.joins, "the inner end launches nothing")
	end(e)
	require.Len(t, e.joins, 1)
	require.Empty(t, e.threads)

	e = newEngine(t).nccl()
	e.call(1, 0xa, 64)
	e.pop(1)
	end(e)
	require.Empty(t, e.joins, "nobody saw its start")

	e = newEngine(t).nccl()
	group(e, "ncclGroupStart")
	e.call(1, 0xa, 64)
	e.pop(1)
	e.Lost()
	end(e)
	require.Empty(t, e.joins, "calls may be missing")

	e = newEngine(t).nccl()
	group(e, "ncclGroupStart")
	e.call(1, 0xa, 64)
	e.depths[1] = 0 // its pop was lost
	end(e)
	require.Empty(t, e.joins)
	group(e, "ncclGroupStart")
	e.call(1, 0xa, 64)
	e.pop(1)
	end(e)
	require.Len(t, e.joins, 1, "the next group is whole")
}

func TestAPayloadOfALostPushIsOfNoOther(t *testing.T) {
	e := newEngine(t).nccl()
	e.push(1, "outer")
	e.payload(wire.EventPush, 1, 2, static+5, words(0xa, 64, 0, 0, 0))
	require.Zero(t, e.Launch(1, 1))
	e.payload(wire.EventStart, 1, 1, static+5, words(0xa, 64, 0, 0, 0))
	e.payload(wire.SiteMark, 1, 1, static+5, words(0xa, 64, 0, 0, 0))
	require.Zero(t, e.Launch(1, 1), "marks and ranges of the process hold no launches")
	e.call(1, 0xa, 64)
	e.Lost()
	require.Zero(t, e.Launch(1, 2))
}

func TestSchemas(t *testing.T) {
	// read gives what a payload of these bytes says, by the only schema.
	read := func(size, pack uint32, data []byte, entries ...entry) map[Field]uint64 {
		t.Helper()
		e := newEngine(t)
		e.schema(static+24, 4, 0, wire.SchemaEnum)
		e.schema(static+1, size, pack, 1, entries...)
		l := e.schemas.layouts[schemaKey{domain, static + 1}]
		require.Len(t, l, 1)
		said := l[0].read(data)
		all := map[Field]uint64{}
		for f := range fields {
			if v, ok := said.Get(f); ok {
				all[f] = v
			}
		}
		return all
	}
	data := make([]byte, 48)
	for i := range data {
		data[i] = byte(i)
	}
	at := func(i, n int) (v uint64) {
		for k := range n {
			v |= uint64(data[i+k]) << (8 * k)
		}
		return v
	}
	comm, rank, peer := entry{18, 0, 0, "NCCL communicator ID"}, entry{5, 0, 0, "Rank"}, entry{5, 0, 0, "Peer rank"}
	require.Equal(t, map[Field]uint64{Rank: at(0, 4), Comm: at(8, 8), Peer: at(16, 4)}, read(24, 0, data, rank, comm, peer), "natural alignment")
	require.Equal(t, map[Field]uint64{Rank: at(0, 4), Comm: at(4, 8), Peer: at(12, 4)}, read(16, 4, data, rank, comm, peer), "packed to 4")
	require.Equal(t, map[Field]uint64{Rank: at(0, 4), Comm: at(4, 8)}, read(12, 1, data[:15], rank, comm, peer), "cut inside the last")
	require.Equal(t, map[Field]uint64{Rank: at(0, 4), Op: at(4, 4), Peer: at(8, 4)}, read(12, 0, data, rank, entry{static + 24, 0, 0, "Reduction operation"}, peer), "an enumeration")
	require.Equal(t, map[Field]uint64{Rank: at(0, 4)}, read(0, 0, data, rank, entry{static + 9, 0, 0, "nested"}, peer), "behind a schema of unknown size")
	require.Equal(t, map[Field]uint64{Rank: at(0, 4), Peer: at(40, 4)}, read(0, 0, data, rank, entry{static + 9, 0, 0, "nested"}, entry{5, 0, 40, "Peer rank"}), "unless it says where")
	require.Equal(t, map[Field]uint64{Peer: at(8, 4)}, read(0, 0, data, entry{18, 1 << 1, 0, "NCCL communicator ID"}, peer), "a pointer is no value")
	require.Equal(t, map[Field]uint64{}, read(0, 0, data, entry{5, 1 << 4, 0, "Rank"}, peer), "nor is an array, and what follows has no place")
	require.Equal(t, map[Field]uint64{}, read(0, 0, data, entry{5, 0, 1 << 60, "Rank"}, entry{20, 0, 8, "Root"}), "far away; a double is no number of a rank")
	minus := read(4, 0, []byte{0xff, 0xff, 0xff, 0xff}, rank)
	require.Equal(t, int64(-1), int64(minus[Rank]))
}

func TestASchemaIsRegisteredTwice(t *testing.T) {
	said := func(e *engine, data []byte) Call {
		e.push(1, "ncclAllReduce")
		e.payload(wire.EventPush, 1, e.depths[1], static+5, data)
		return e.Follower.Call(e.Launch(1, 1))
	}
	grown := []entry{{5, 0, 0, "Root"}, {18, 0, 8, "NCCL communicator ID"}, {22, 0, 16, "Message size [bytes]"}, {5, 0, 24, "new"}}
	long := make([]byte, 32)
	long[8], long[16] = 0xb, 32

	e := newEngine(t).nccl()
	e.nccl() // the same again
	e.schema(static+5, 32, 0, 1, grown...)
	require.Equal(t, Call{0xa, 64}, said(e, words(0xa, 64, 0, 0, 0)), "the size says which")
	require.Equal(t, Call{0xb, 32}, said(e, long))

	e = newEngine(t).nccl()
	e.schema(static+5, 24, 0, 1, entry{22, 0, 0, "Message size [bytes]"}, entry{18, 0, 8, "NCCL communicator ID"})
	require.Equal(t, Call{}, said(e, words(0xa, 64, 0, 0, 0)), "nothing says which")
	require.EqualValues(t, 1, e.Counts.Unread)

	e = newEngine(t)
	require.Equal(t, Call{}, said(e, words(0xa, 64, 0, 0, 0)), "no schema at all")
	e.schema(static+5, 24, 0, 3, entry{18, 0, 0, "NCCL communicator ID"}, entry{22, 0, 8, "Message size [bytes]"})
	require.Equal(t, Call{}, said(e, words(0xa, 64, 0, 0, 0)), "a union")
}

func TestAnotherDomainsPayloadsAreNotNCCLs(t *testing.T) {
	e := newEngine(t).nccl()
	e.domain, e.named = 1, true
	require.False(t, e.Follows(domain))
	e.push(1, "ncclCommInitRank")
	e.payload(wire.EventPop, 1, 1, static+11, words(0xa, 2, 1, 3))
	require.Zero(t, e.Counts.Payloads)
	require.False(t, e.World().OK)
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	e := newEngine(t).nccl()
	for i := range uint64(MaxCalls + 10) {
		e.call(1, 0xa, i+1)
		require.Equal(t, i >= MaxCalls, e.Launch(1, 1) == 0)
		e.pop(1)
	}
	require.EqualValues(t, 10, e.Counts.Refused)
	for i := range uint32(MaxDepth + 10) {
		e.push(1, "x")
		require.LessOrEqual(t, len(e.threads[1].open), MaxDepth, i)
	}
	for range MaxDepth + 10 {
		e.pop(1)
	}
	require.Empty(t, e.threads)
	for i := range uint32(MaxThreads + 10) {
		e.push(i+1, "x")
	}
	require.Len(t, e.threads, MaxThreads)
	e.depths[9] = 1 << 31 // the sender says something absurd
	e.push(9, "x")
	require.LessOrEqual(t, len(e.threads[9].open), MaxDepth)
	for i := range uint64(maxSchemas + 10) {
		e.schema(static+100+i, 8, 0, 1, entry{22, 0, 0, "Message size [bytes]"})
	}
	require.LessOrEqual(t, len(e.schemas.layouts)+len(e.schemas.enums), maxSchemas)

	e = newEngine(t).nccl()
	e.push(1, "ncclGroupStart")
	e.pop(1)
	e.call(1, 0xa, 64)
	e.pop(1)
	e.push(1, "ncclGroupEnd")
	for i := range uint32(MaxJoin + 10) {
		e.Launch(1, i)
	}
	e.pop(1)
	require.Empty(t, e.joins, "more launches than are kept")
}
