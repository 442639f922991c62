// Package krec reads and writes recordings: what one process was given by CUPTI and NVTX, in the order in which it was
// given, as a zstd-compressed run of frames. For tests and tools; the collector never sees one.
package krec

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Kinds of frames, as they lie in the file.
const (
	KindMeta        = 1
	KindRaw         = 2
	KindName        = 3
	KindLaunch      = 4
	KindPush        = 5
	KindPop         = 6
	KindDropped     = 7
	KindNodeCreated = 8
	KindNodeCloned  = 9
	KindClocks      = 10
	KindGraphExec   = 11
	KindDomain      = 12
	KindCaptured    = 13
	KindSchema      = 14
	KindPushPayload = 15
	KindPopPayload  = 16
)

// A Recording is one process's recording. Its first frame is a Meta.
type Recording struct {
	Frames []Frame
}

// Meta is what the first frame says; the zero Meta where there is none.
func (r *Recording) Meta() Meta {
	if len(r.Frames) > 0 {
		if m, ok := r.Frames[0].(*Meta); ok {
			return *m
		}
	}
	return Meta{}
}

// Clone is a deep copy: changing it leaves r as it was.
func (r *Recording) Clone() *Recording {
	c := &Recording{Frames: make([]Frame, len(r.Frames))}
	for i, f := range r.Frames {
		c.Frames[i] = f.clone()
	}
	return c
}

// A Frame is one of the pointer types below.
type Frame interface {
	Kind() uint32
	appendBody(b []byte) []byte
	clone() Frame
}

// Meta says what made the recording. JSON is the frame's text, byte for byte; Info what it means.
type Meta struct {
	JSON string
	Info Info
}

// Info is the meaning of a Meta.
type Info struct {
	Format       uint32 // of the file: 2
	CUPTI        uint32 // cuptiGetVersion
	Headers      uint32 // CUPTI version that the recorder was built for
	KernelRecord int    // bytes of one kernel record
	PID          uint32
	Rank         string
}

// NewMeta is the frame that says i.
func NewMeta(i Info) *Meta {
	rank, _ := json.Marshal(i.Rank) // a string always marshals
	return &Meta{Info: i, JSON: fmt.Sprintf(`{"format":%d,"cupti":%d,"headers":%d,"kernel_record":%d,"pid":%d,"rank":%s}`,
		i.Format, i.CUPTI, i.Headers, i.KernelRecord, i.PID, rank)}
}

func parseInfo(text []byte) (Info, error) {
	var j struct {
		Format, CUPTI, Headers, PID uint32
		KernelRecord                int `json:"kernel_record"`
		Rank                        json.RawMessage
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return Info{}, err
	}
	if j.Format != 2 {
		return Info{}, fmt.Errorf("format %d, want 2", j.Format)
	}
	// 208: the prefix that kernel records have had since CUPTI 12.0. 4096: far above any (248 in CUPTI 13.4).
	if j.KernelRecord < kernelPrefix || j.KernelRecord > 4096 || j.KernelRecord%8 != 0 {
		return Info{}, fmt.Errorf("kernel records of %d bytes, want 208 to 4096 and a multiple of 8", j.KernelRecord)
	}
	return Info{Format: j.Format, CUPTI: j.CUPTI, Headers: j.Headers, KernelRecord: j.KernelRecord, PID: j.PID,
		Rank: strings.Trim(string(j.Rank), `"`)}, nil
}

// Raw is one completed activity buffer: its records end to end.
type Raw struct {
	Records []Record
}

// Name gives the kernel name at a pointer that kernel records carry; it stands before the first buffer that uses it.
type Name struct {
	Pointer uint64
	Text    string
}

// Launch is the entry of a kernel or graph launch call.
type Launch struct {
	Time        uint64 // unix ns
	Correlation uint32
	Callback    uint32 // CUPTI's driver callback id
	Thread      uint32
	Depth       uint32 // of the default domain's stack
	Text        string // innermost default-domain range of the thread
}

// Graph says whether a graph was launched: cuGraphLaunch or its per-thread-stream twin.
func (l *Launch) Graph() bool { return l.Callback == 514 || l.Callback == 515 }

// Push opens an NVTX range on its thread.
type Push struct {
	Time   uint64 // unix ns
	Thread uint32
	Depth  uint32 // of the thread's stack in the domain, after
	Domain uint32 // 0: the default domain
	Text   string

	Payload *Payload // nil: none; with one the frame is a KindPushPayload
}

// Pop closes the innermost range of its thread and domain.
type Pop struct {
	Time   uint64 // unix ns
	Thread uint32
	Depth  uint32 // after
	Domain uint32

	Payload *Payload // nil: none; with one the frame is a KindPopPayload
}

// Dropped is how many records CUPTI says it dropped.
type Dropped struct{ Count uint64 }

// NodeCreated is the creation of a graph node; the graph's id is Node >> 32.
type NodeCreated struct {
	Node   uint64
	Type   uint32 // as CUPTI gave it; 0 for all kinds of nodes in practice
	Thread uint32
	Text   string // innermost default-domain range of the thread
}

// NodeCloned says that Clone was made from Original, by instantiation. Kernel records carry the clone's id.
type NodeCloned struct{ Original, Clone uint64 }

// Clocks is CUPTI's clock between two readings of CLOCK_REALTIME, in ns.
type Clocks struct{ Before, CUPTI, After, Monotonic uint64 }

// GraphExec says which graph an executable graph was made of.
type GraphExec struct{ Graph, Exec uint32 }

// Domain is the creation of an NVTX domain.
type Domain struct {
	ID   uint32
	Name string
}

// Captured says that a launch went into a graph: no record comes for it.
type Captured struct{ Correlation uint32 }

func (*Meta) Kind() uint32        { return KindMeta }
func (*Raw) Kind() uint32         { return KindRaw }
func (*Name) Kind() uint32        { return KindName }
func (*Launch) Kind() uint32      { return KindLaunch }
func (*Dropped) Kind() uint32     { return KindDropped }
func (*NodeCreated) Kind() uint32 { return KindNodeCreated }
func (*NodeCloned) Kind() uint32  { return KindNodeCloned }
func (*Clocks) Kind() uint32      { return KindClocks }
func (*GraphExec) Kind() uint32   { return KindGraphExec }
func (*Domain) Kind() uint32      { return KindDomain }
func (*Captured) Kind() uint32    { return KindCaptured }

func (f *Meta) clone() Frame        { c := *f; return &c }
func (f *Name) clone() Frame        { c := *f; return &c }
func (f *Launch) clone() Frame      { c := *f; return &c }
func (f *Dropped) clone() Frame     { c := *f; return &c }
func (f *NodeCreated) clone() Frame { c := *f; return &c }
func (f *NodeCloned) clone() Frame  { c := *f; return &c }
func (f *Clocks) clone() Frame      { c := *f; return &c }
func (f *GraphExec) clone() Frame   { c := *f; return &c }
func (f *Domain) clone() Frame      { c := *f; return &c }
func (f *Captured) clone() Frame    { c := *f; return &c }

func (f *Raw) clone() Frame {
	c := &Raw{Records: make([]Record, len(f.Records))}
	bytes := f.appendBody(nil)
	for i, r := range f.Records {
		c.Records[i], bytes = bytes[:len(r):len(r)], bytes[len(r):]
	}
	return c
}
