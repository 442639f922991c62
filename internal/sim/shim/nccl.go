package shim

import (
	"encoding/binary"

	"github.com/kernhes/kernhes/internal/sender"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// NCCL's domain, and its schemas as NCCL 2.28 registers them (src/include/nvtx.h,
// nvtx_payload_schemas.h).
const (
	ncclDomain = 1
	static     = 1 << 24
	initSchema = static + 11
	reduce     = static + 5
	send       = static + 9
	recv       = static + 10

	structs  = 1 // the schemas' type
	typeInt  = 5
	typeU64  = 18
	typeSize = 22
)

// communicators tells of the initialisation of the world's communicator, and of each group's that
// NCCL serves.
func (h *Shim) communicators() {
	h.Wire.Domain(ncclDomain, "NCCL")
	one := func(id uint64, fields ...sender.Field) {
		h.Wire.Register(sender.Schema{Domain: ncclDomain, ID: id, Size: 24, Type: structs, Fields: fields})
	}
	comm, bytes := sender.Field{Type: typeU64, Name: "NCCL communicator ID"}, sender.Field{Type: typeSize, Offset: 8, Name: "Message size [bytes]"}
	one(initSchema, comm, sender.Field{Type: typeInt, Offset: 8, Name: "No. of ranks"}, sender.Field{Type: typeInt, Offset: 12, Name: "Rank"},
		sender.Field{Type: typeInt, Offset: 16, Name: "CUDA device"})
	one(reduce, comm, bytes, sender.Field{Type: typeInt, Offset: 16, Name: "Reduction operation"})
	one(send, comm, bytes, sender.Field{Type: typeInt, Offset: 16, Name: "Peer rank"})
	one(recv, comm, bytes, sender.Field{Type: typeInt, Offset: 16, Name: "Peer rank"})
	all := make([]int, h.set.Layout.Ranks())
	for r := range all {
		all[r] = r
	}
	h.initialised(Communicator(h.set, program.None, 0), all)
	for _, m := range []program.Meeting{program.Tensor, program.Stages} {
		g := h.set.Layout.Group(m, h.rank)
		if members := h.set.Layout.Members(m, g); len(members) > 1 && (m == program.Tensor || h.set.Layout.Stages > 1) {
			h.initialised(Communicator(h.set, m, g), members)
		}
	}
}

// initialised is one ncclCommInitRankConfig: it is popped with its payload.
func (h *Shim) initialised(id uint64, members []int) {
	data := binary.LittleEndian.AppendUint64(nil, id)
	for _, v := range []int{len(members), place(members, h.rank), 0, 0} {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	h.Wire.Push(engine, ncclDomain, 1, "ncclCommInitRankConfig")
	h.Wire.PopPayload(engine, ncclDomain, 1, initSchema, data)
	h.Wire.Pop(engine, ncclDomain, 0)
	h.Wire.PinPopped(ncclDomain, "ncclCommInitRankConfig", initSchema, data)
}

func place(members []int, rank int) int {
	for i, m := range members {
		if m == rank {
			return i
		}
	}
	return 0
}

// Communicator is the id of a group's communicator, of None the world's: fresh with each run, and
// the same on all its ranks.
func Communicator(set *Settings, m program.Meeting, group int) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(set.Run) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return (h^uint64(set.Start)^uint64(m)<<8^uint64(group)<<16)*1099511628211 | 1
}

// collective wraps a launch of NCCL in its range, with its payload. Any other launch is made as it
// is.
func (h *Shim) collective(thread uint32, k *program.Kernel, tokens int, launch func()) {
	if k.NCCL == "" {
		launch()
		return
	}
	schema, last := uint64(reduce), uint32(0) // the operation: a sum
	if k.NCCL != "ncclAllReduce" {
		schema, last = send, uint32(1) // the peer: of two ranks the second receives
		if k.NCCL == "ncclRecv" {
			schema, last = recv, 0
		}
	}
	data := binary.LittleEndian.AppendUint64(nil, Communicator(h.set, k.Meets, h.set.Layout.Group(k.Meets, h.rank)))
	data = binary.LittleEndian.AppendUint64(data, uint64(k.Bytes*float64(tokens)))
	data = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(data, last), 0)
	h.Wire.Push(thread, ncclDomain, 1, k.NCCL)
	h.Wire.PushPayload(thread, ncclDomain, 1, schema, data)
	launch()
	h.Wire.Pop(thread, ncclDomain, 0)
}
