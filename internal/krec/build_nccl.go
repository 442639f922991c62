package krec

import "strings"

// NCCL's domain, and its schemas as version 2.28 registers them.
const (
	ncclDomain  = "NCCL"
	ncclStatic  = 1 << 24 // the first static schema id
	ncclInitAll = ncclStatic + 1
	ncclInit    = ncclStatic + 11
	ncclReduce  = ncclStatic + 5
	ncclSend    = ncclStatic + 9
	ncclSplit   = ncclStatic + 13
	ncclOps     = ncclStatic + 24

	nvtxInt    = 5
	nvtxUint64 = 18
	nvtxSize   = 22
)

// Schema registers a schema in a domain.
func (b *Builder) Schema(domain string, s Schema) {
	s.Domain = b.domain(domain)
	b.add(&s)
}

// PushWith and PopWith open and close a range in a domain with a payload.
func (b *Builder) PushWith(domain, text string, p Payload) {
	b.add(&Push{Time: b.tick(), Thread: b.thread, Domain: b.domain(domain), Text: text, Payload: &p})
}

func (b *Builder) PopWith(domain string, p Payload) {
	b.add(&Pop{Time: b.tick(), Thread: b.thread, Domain: b.domain(domain), Payload: &p})
}

// NCCL registers the schemas.
func (b *Builder) NCCL() {
	comm := SchemaEntry{Type: nvtxUint64, Name: "NCCL communicator ID"}
	number := func(at uint64, name string) SchemaEntry { return SchemaEntry{Type: nvtxInt, Offset: at, Name: name} }
	size := SchemaEntry{Type: nvtxSize, Offset: 8, Name: "Message size [bytes]"}
	b.Schema(ncclDomain, Schema{ID: ncclOps, Size: 4, Type: SchemaEnum, Entries: []SchemaEntry{{Name: "Sum"}, {Type: 1, Name: "Product"}}})
	b.Schema(ncclDomain, Schema{ID: ncclInit, Size: 24, Type: 1,
		Entries: []SchemaEntry{comm, number(8, "No. of ranks"), number(12, "Rank"), number(16, "CUDA device")}})
	b.Schema(ncclDomain, Schema{ID: ncclInitAll, Size: 16, Type: 1, Entries: []SchemaEntry{comm, number(8, "No. of devices")}})
	b.Schema(ncclDomain, Schema{ID: ncclReduce, Size: 24, Type: 1,
		Entries: []SchemaEntry{comm, size, {Type: ncclOps, Offset: 16, Name: "Reduction operation"}}})
	b.Schema(ncclDomain, Schema{ID: ncclSend, Size: 24, Type: 1, Entries: []SchemaEntry{comm, size, number(16, "Peer rank")}})
	b.Schema(ncclDomain, Schema{ID: ncclSplit, Size: 40, Type: 1, Entries: []SchemaEntry{comm,
		{Type: nvtxUint64, Offset: 8, Name: "Parent NCCL communicator ID"}, number(16, "No. of ranks"), number(20, "Rank"),
		number(24, "CUDA device"), number(28, "Color"), number(32, "Key")}})
}

func ncclData(size int, comm uint64, rest ...uint32) []byte {
	b := append32(append64(nil, comm), rest...)
	return append(b, make([]byte, size-len(b))...)
}

// CommInit makes a communicator: the range is pushed without a payload and popped with one.
func (b *Builder) CommInit(comm uint64, ranks, rank, device uint32) {
	b.PushIn(ncclDomain, "ncclCommInitRankConfig")
	b.Wait(1e6)
	b.PopWith(ncclDomain, Payload{ncclInit, WayFunction, ncclData(24, comm, ranks, rank, device)})
}

// CommSplit makes one out of another.
func (b *Builder) CommSplit(comm, parent uint64, ranks, rank, device uint32) {
	b.PushIn(ncclDomain, "ncclCommSplit")
	b.PopWith(ncclDomain, Payload{ncclSplit, WayFunction, ncclData(40, comm, uint32(parent), uint32(parent>>32), ranks, rank, device)})
}

// Collective opens the range of an all-reduce, or of a send or receive to peer 1, of so many bytes. PopIn("NCCL") closes it.
func (b *Builder) Collective(text string, comm uint64, bytes uint32) {
	schema, last := uint64(ncclReduce), uint32(0)
	if strings.HasSuffix(text, "Send") || strings.HasSuffix(text, "Recv") {
		schema, last = ncclSend, 1
	}
	b.PushWith(ncclDomain, text, Payload{schema, WayAttributes, ncclData(24, comm, bytes, 0, last)})
}

// Group opens a group, calls f, and leaves the range of the group's end open for launches.
func (b *Builder) Group(f func()) {
	b.PushIn(ncclDomain, "ncclGroupStart")
	b.PopIn(ncclDomain)
	f()
	b.PushIn(ncclDomain, "ncclGroupEnd")
}
