// Package fakeshim turns a recording into the frames that a perfect shim would send: for tests of what reads the wire.
package fakeshim

import (
	"strconv"

	"github.com/kernhes/kernhes/internal/krec"
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
	o = o.filled(r)
	s := newShim()
	s.hello(r, o)
	s.Base()
	s.play(r, o)
	s.Bye()
	return s.frames
}

// play sends what a recording tells, up to its last record.
func (s *shim) play(r *krec.Recording, o Options) {
	inside := insideLaunch(r)
	p := plan(r, o)
	for i, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			for o.Deliver == Flush && p.more(t) {
				s.deliver(p.next())
			}
			s.Now = t
		}
		if pop, ok := f.(*krec.Pop); ok && pop.Payload != nil { // it comes before the pop
			s.PopPayload(pop.Thread, pop.Domain, pop.Depth+1, pop.Payload.Schema, pop.Payload.Data)
		}
		switch f := f.(type) {
		case *krec.Push:
			s.push(f)
		case *krec.Pop:
			s.event(evPop, f.Thread, append32(nil, f.Domain, f.Depth))
		case *krec.Schema:
			s.Register(schemaOf(f))
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
			s.dropped(f)
		case *krec.Raw:
			if o.Deliver == Position {
				s.deliver(p.at(i, s.Now))
			}
		}
	}
	s.deliver(p.last(s.Now))
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

func (s *shim) hello(r *krec.Recording, o Options) {
	info := r.Meta().Info
	pairs := []string{
		"run", o.Run, "rank", o.Rank, "host", o.Host, "engine", "fakeshim",
		"pid", strconv.Itoa(int(info.PID)), "process_start", strconv.FormatUint(firstTime(r), 10), "mode", "software",
		"mode_reason", "recorded", "cupti_version", strconv.Itoa(int(info.CUPTI)), "shim_version", "0",
	}
	for _, device := range devices(r) {
		gpu := "gpu." + strconv.Itoa(int(device))
		pairs = append(pairs, gpu+".uuid", "GPU-"+o.Rank+"-"+strconv.Itoa(int(device)), gpu+".name", "recorded GPU")
	}
	s.Hello(o.Session, pairs...)
}

func firstTime(r *krec.Recording) uint64 {
	for _, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			return t
		}
	}
	return 0
}
