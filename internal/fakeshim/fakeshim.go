// Package fakeshim turns a recording into the frames that a perfect shim would send: for tests of what reads the wire. It
// writes the layouts of WIRE.md by hand, so that it can disagree with the code under test.
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
	s := &sender{ids: map[string]uint32{}, seen: map[string]bool{}, schemas: map[schemaKey]*schema{}}
	s.hello(r, o)
	s.send(kindBase, append64(nil, 0, 0))
	s.number = 1

	inside := insideLaunch(r)
	p := plan(r, o)
	for i, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			for o.Deliver == Flush && p.more(t) {
				s.deliver(p.next())
			}
			s.now = t
		}
		switch f := f.(type) {
		case *krec.Push:
			s.push(f)
			s.payload(evPush, f.Thread, f.Domain, f.Depth, f.Payload)
		case *krec.Schema:
			s.register(f)
		case *krec.Pop:
			s.payload(evPop, f.Thread, f.Domain, f.Depth+1, f.Payload)
			s.event(evPop, f.Thread, append32(nil, f.Domain, f.Depth))
		case *krec.Launch:
			s.event(evLaunch, f.Thread, append32(nil, f.Correlation, flag(f.Graph(), launchGraph)))
		case *krec.Captured:
			s.event(evCaptured, inside.thread[f], append32(nil, f.Correlation, 0))
		case *krec.NodeCreated:
			s.event(evNodeCreated, f.Thread, append32(append64(nil, f.Node), flag(inside.node[f], nodeInLaunch), f.Type))
		case *krec.NodeCloned:
			s.event(evNodeCloned, 0, append64(nil, f.Original, f.Clone))
		case *krec.Domain:
			s.event(evDomain, 0, padded(append32(nil, f.ID, uint32(len(f.Name))), f.Name))
		case *krec.Clocks:
			s.now, s.monotonic = max(s.now, f.Before), f.Monotonic-f.Before
			s.frame(kindClock, append64(nil, f.Before, f.CUPTI, f.After, f.Monotonic))
		case *krec.Dropped:
			if f.Count > 0 {
				s.frame(kindLost, append64(append32(nil, lostCUPTI, 0), f.Count, s.flushed, s.now))
			}
		case *krec.Raw:
			if o.Deliver == Position {
				s.deliver(p.at(i, s.now))
			}
		}
	}
	s.deliver(p.last(s.now))
	s.frame(kindBye, append64(append32(nil, byeExit, 0), s.kernels, s.copies))
	return s.frames
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

func (s *sender) hello(r *krec.Recording, o Options) {
	or := func(value, otherwise string) string {
		if value == "" {
			return otherwise
		}
		return value
	}
	info := r.Meta().Info
	pairs := []string{
		"run", or(o.Run, "recorded"), "rank", or(o.Rank, info.Rank), "host", or(o.Host, "recorder"), "engine", "fakeshim",
		"pid", strconv.Itoa(int(info.PID)), "process_start", strconv.FormatUint(firstTime(r), 10), "mode", "software",
		"mode_reason", "recorded", "cupti_version", strconv.Itoa(int(info.CUPTI)), "shim_version", "0",
	}
	for _, device := range devices(r) {
		gpu := "gpu." + strconv.Itoa(int(device))
		pairs = append(pairs, gpu+".uuid", "GPU-"+or(o.Rank, info.Rank)+"-"+strconv.Itoa(int(device)), gpu+".name", "recorded GPU")
	}
	session := o.Session
	if session == 0 {
		session = 1
	}
	body := append64(nil, magic)
	body = append16(body, version, 0)
	body = append64(append32(body, 0), session)
	for i := 0; i < len(pairs); i += 2 {
		body = append16(body, uint16(len(pairs[i])), 0)
		body = append32(body, uint32(len(pairs[i+1])))
		body = append(append(body, pairs[i]...), pairs[i+1]...)
	}
	s.send(kindHello, body)
}

func firstTime(r *krec.Recording) uint64 {
	for _, f := range r.Frames {
		if t, ok := timeOf(f); ok {
			return t
		}
	}
	return 0
}
