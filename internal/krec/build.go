package krec

import "fmt"

// A Builder makes a recording by hand. It keeps a clock that each call moves on by 1 µs, a current thread and a current
// device; activity records wait until Deliver puts them into a buffer.
type Builder struct {
	frames  []Frame
	now     uint64
	thread  uint32
	device  uint32
	next    uint32 // correlation id
	graphs  uint32
	domains map[string]uint32
	names   map[string]uint64
	waiting []Record
}

const (
	kernelBytes = 216             // CUpti_ActivityKernel10
	epoch       = uint64(1.79e18) // unix ns: when a Builder's clock begins
	tick        = 1000            // ns between two calls
)

// NewBuilder begins a recording of rank 0, on thread 1 and device 0.
func NewBuilder() *Builder {
	b := &Builder{now: epoch, thread: 1, domains: map[string]uint32{}, names: map[string]uint64{}}
	b.add(NewMeta(Info{Format: 2, CUPTI: 130001, Headers: 130001, KernelRecord: kernelBytes, PID: 1, Rank: "0"}))
	b.add(&Clocks{Before: b.now, CUPTI: b.now + 50, After: b.now + 100, Monotonic: 1e12})
	return b
}

func (b *Builder) add(f Frame) { b.frames = append(b.frames, f) }

func (b *Builder) tick() uint64 { b.now += tick; return b.now }

// Now is the clock, in unix ns.
func (b *Builder) Now() uint64 { return b.now }

// Wait moves the clock on by ns.
func (b *Builder) Wait(ns uint64) { b.now += ns }

// Thread makes t the thread of what follows; Device the device of its kernels; Correlate the next correlation id.
func (b *Builder) Thread(t uint32)     { b.thread = t }
func (b *Builder) Device(d uint32)     { b.device = d }
func (b *Builder) Correlate(id uint32) { b.next = id - 1 }

// Push opens a range in the default domain, Pop closes it.
func (b *Builder) Push(text string) { b.add(&Push{Time: b.tick(), Thread: b.thread, Text: text}) }
func (b *Builder) Pop()             { b.add(&Pop{Time: b.tick(), Thread: b.thread}) }

// PushIn and PopIn do so in a domain of that name, which is made when it is first named.
func (b *Builder) PushIn(domain, text string) {
	b.add(&Push{Time: b.tick(), Thread: b.thread, Domain: b.domain(domain), Text: text})
}

func (b *Builder) PopIn(domain string) {
	b.add(&Pop{Time: b.tick(), Thread: b.thread, Domain: b.domain(domain)})
}

func (b *Builder) domain(name string) uint32 {
	if b.domains[name] == 0 {
		b.domains[name] = uint32(len(b.domains) + 1)
		b.add(&Domain{ID: b.domains[name], Name: name})
	}
	return b.domains[name]
}

// Launch enters an eager launch call (cuLaunchKernel) and returns its correlation id. No record comes by itself.
func (b *Builder) Launch() uint32 { return b.launch(307) }

func (b *Builder) launch(callback uint32) uint32 {
	b.next++
	b.add(&Launch{Time: b.tick(), Correlation: b.next, Callback: callback, Thread: b.thread})
	return b.next
}

// Kernel adds the record of a kernel from start to end (unix ns) that launch id made; node is 0 outside graphs.
func (b *Builder) Kernel(id uint32, name string, stream uint32, node, start, end uint64) {
	if b.names[name] == 0 {
		b.names[name] = 0x7f0000000000 + uint64(len(b.names)+1)*64
		b.add(&Name{Pointer: b.names[name], Text: name})
	}
	r := b.record(KindKernel, id, stream, node, start, end)
	r.SetName(b.names[name])
	r.SetShape([3]uint32{132, 1, 1}, [3]uint32{256, 1, 1})
}

// Copy adds the record of a device-to-device copy.
func (b *Builder) Copy(id, stream uint32, node, start, end, bytes uint64) {
	r := b.record(KindMemcpy, id, stream, node, start, end)
	r.SetBytes(bytes)
	r.SetCopyKind(8) // DtoD
}

// Set adds the record of a memset.
func (b *Builder) Set(id, stream uint32, node, start, end, bytes uint64) {
	b.record(KindMemset, id, stream, node, start, end).SetBytes(bytes)
}

func (b *Builder) record(kind, id, stream uint32, node, start, end uint64) Record {
	r := NewRecord(kind, kernelBytes)
	r.SetStart(start)
	r.SetEnd(end)
	r.SetDevice(b.device)
	r.SetContext(b.device + 1)
	r.SetStream(stream)
	r.SetCorrelation(id)
	r.SetNode(node)
	b.waiting = append(b.waiting, r)
	return r
}

// Run launches a kernel that runs from after to after+long (ns from now).
func (b *Builder) Run(name string, stream uint32, after, long uint64) {
	id := b.Launch()
	b.Kernel(id, name, stream, 0, b.now+after, b.now+after+long)
}

// Deliver completes a buffer with the records that wait, in the order in which they were added, or as order says (a
// permutation of their indices).
func (b *Builder) Deliver(order ...int) {
	records := b.waiting
	if len(order) > 0 {
		records = nil
		for _, i := range order {
			records = append(records, b.waiting[i])
		}
	}
	b.add(&Raw{Records: records})
	b.waiting = nil
}

// Recording is what was built; records that still wait are delivered.
func (b *Builder) Recording() *Recording {
	if len(b.waiting) > 0 {
		b.Deliver()
	}
	r := &Recording{Frames: b.frames}
	settle(r)
	if err := Check(r); err != nil {
		panic(fmt.Sprintf("krec.Builder: %v", err)) // a story that could not have happened is a fault of its author
	}
	return r
}
