// Package fakeshim turns a recording into the frames that a perfect shim would send: for tests of what reads the wire.
package fakeshim

import (
	"cmp"
	"strconv"

	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/sender"
)

// A Delivery is when activity records are sent.
type Delivery int

const (
	// Position sends each buffer where it stands in the recording.
	Position Delivery = 0
	// Flush sends each record with the first flush after its end; there is one in each 100 ms of recorded time.
	Flush Delivery = 1
)

// Options say how a recording is sent. The zero Options are valid.
type Options struct {
	Deliver Delivery
	Reorder uint64 // seed; kernels come up to a second late and each delivery is shuffled. Default: 0, neither
	Run     string // Default: "recorded"
	Rank    string // Default: the recording's
	Host    string // Default: "recorder"
	Session uint64 // Default: 1
}

// Frames are HELLO, BASE (a snapshot of nothing: the session is heard from its first frame) and all numbered frames up to
// BYE, each with its head.
func Frames(r *krec.Recording, o Options) [][]byte {
	var frames [][]byte
	s := sender.New(func(_ uint64, frame []byte) { frames = append(frames, frame) })
	hello(s, r, o)
	s.Base()

	inside := insideLaunch(r)
	p := plan(r, o)
	for i, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			for o.Deliver == Flush && p.more(t) {
				deliver(s, p.next())
			}
			s.Now = t
		}
		switch f := f.(type) {
		case *krec.Push:
			s.Push(f.Thread, f.Domain, f.Depth, f.Text)
			if p := f.Payload; p != nil {
				s.PushPayload(f.Thread, f.Domain, f.Depth, p.Schema, p.Data)
			}
		case *krec.Schema:
			s.Register(schemaOf(f))
		case *krec.Pop:
			if p := f.Payload; p != nil {
				s.PopPayload(f.Thread, f.Domain, f.Depth+1, p.Schema, p.Data)
			}
			s.Pop(f.Thread, f.Domain, f.Depth)
		case *krec.Launch:
			s.Launch(f.Thread, f.Correlation, f.Graph())
		case *krec.Captured:
			s.Captured(inside.thread[f], f.Correlation)
		case *krec.NodeCreated:
			s.NodeCreated(f.Thread, f.Node, inside.node[f], f.Type)
		case *krec.NodeCloned:
			s.NodeCloned(f.Original, f.Clone)
		case *krec.Domain:
			s.Domain(f.ID, f.Name)
		case *krec.Clocks:
			s.Now, s.Monotonic = max(s.Now, f.Before), f.Monotonic-f.Before
			s.Clock(f.Before, f.CUPTI, f.After, f.Monotonic)
		case *krec.Dropped:
			if f.Count > 0 {
				s.Lost(sender.LostCUPTI, sender.LostRecords, f.Count, s.Flushed, s.Now)
			}
		case *krec.Raw:
			if o.Deliver == Position {
				deliver(s, p.at(i, s.Now))
			}
		}
	}
	deliver(s, p.last(s.Now))
	s.Bye()
	return frames
}

// deliver sends the records of one delivery, then FLUSHED.
func deliver(s *sender.Sender, d delivery) {
	s.Now = max(s.Now, d.at)
	var kernels []sender.Kernel
	var copies []sender.Copy
	for _, r := range d.records {
		if r.Kind() == krec.KindKernel {
			kernels = append(kernels, kernel(r.Record, s.ID(r.name)))
		} else {
			copies = append(copies, copyOf(r.Record))
		}
	}
	s.Records(kernels, copies)
	s.Flush(d.at)
}

func schemaOf(f *krec.Schema) sender.Schema {
	s := sender.Schema{Domain: f.Domain, ID: f.ID, Size: f.Size, Pack: f.Pack, Type: f.Type}
	for _, e := range f.Entries {
		s.Fields = append(s.Fields, sender.Field{Type: e.Type, Flags: e.Flags, Offset: e.Offset, Detail: e.Detail, Name: e.Name})
	}
	return s
}

func kernel(r krec.Record, name uint32) sender.Kernel {
	return sender.Kernel{
		Start: r.Start(), End: r.End(), Node: r.Node(), Correlation: r.Correlation(), Name: name, Stream: r.Stream(),
		Device: uint16(r.Device()), Registers: r.Registers(), Grid: r.Grid(), Block: r.Block(), Context: uint16(r.Context()),
		SharedStatic: r.SharedStatic(), SharedDynamic: r.SharedDynamic(),
	}
}

func copyOf(r krec.Record) sender.Copy {
	from, to := r.Memories()
	return sender.Copy{
		Start: r.Start(), End: r.End(), Node: r.Node(), Bytes: r.Bytes(), Correlation: r.Correlation(), Stream: r.Stream(),
		Device: uint16(r.Device()), Kind: uint8(r.Kind()), CopyKind: r.CopyKind(), From: from, To: to, Flags: r.Flags(), Context: r.Context(),
	}
}

// insides is what the wire says of a capture and a recording tells only by its order.
type insides struct {
	node   map[*krec.NodeCreated]bool // made inside a launch call
	thread map[*krec.Captured]uint32  // of the launch
}

// insideLaunch finds the nodes that stand between a launch and its captured frame, on one thread.
func insideLaunch(r *krec.Recording) insides {
	in := insides{map[*krec.NodeCreated]bool{}, map[*krec.Captured]uint32{}}
	calls := map[uint32]*krec.Launch{}        // by correlation id
	last := map[uint32]*krec.Launch{}         // by thread
	nodes := map[uint32][]*krec.NodeCreated{} // by thread, since the last launch
	for _, f := range r.Frames {
		switch f := f.(type) {
		case *krec.Launch:
			calls[f.Correlation], last[f.Thread], nodes[f.Thread] = f, f, nil
		case *krec.NodeCreated:
			nodes[f.Thread] = append(nodes[f.Thread], f)
		case *krec.Captured:
			call := calls[f.Correlation]
			if call == nil {
				continue
			}
			in.thread[f] = call.Thread
			if last[call.Thread] == call {
				for _, n := range nodes[call.Thread] {
					in.node[n] = true
				}
				nodes[call.Thread] = nil
			}
		}
	}
	return in
}

func timeOf(f krec.Frame) (uint64, bool) {
	switch f := f.(type) {
	case *krec.Launch:
		return f.Time, true
	case *krec.Push:
		return f.Time, true
	case *krec.Pop:
		return f.Time, true
	}
	return 0, false
}

func hello(s *sender.Sender, r *krec.Recording, o Options) {
	info := r.Meta().Info
	pairs := []string{
		"run", cmp.Or(o.Run, "recorded"), "rank", cmp.Or(o.Rank, info.Rank), "host", cmp.Or(o.Host, "recorder"), "engine", "fakeshim",
		"pid", strconv.Itoa(int(info.PID)), "process_start", strconv.FormatUint(firstTime(r), 10), "mode", "software",
		"mode_reason", "recorded", "cupti_version", strconv.Itoa(int(info.CUPTI)), "shim_version", "0",
	}
	for _, device := range devices(r) {
		gpu := "gpu." + strconv.Itoa(int(device))
		pairs = append(pairs, gpu+".uuid", "GPU-"+cmp.Or(o.Rank, info.Rank)+"-"+strconv.Itoa(int(device)), gpu+".name", "recorded GPU")
	}
	s.Hello(cmp.Or(o.Session, 1), pairs...)
}

func firstTime(r *krec.Recording) uint64 {
	for _, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			return t
		}
	}
	return 0
}
