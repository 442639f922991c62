package sender

import "slices"

// pinned is what later frames rest on, for a collector that has not heard the session from its
// first frame.
type pinned struct {
	entries  []entry // in order of their frames
	launches []mark  // of frames of which it is open whether the collector has them
	base     mark    // the frame up to which all is freed, and the last launch that the collector has had
	any      bool    // there was a launch
}

// A mark is a frame with the correlation id of its last launch.
type mark struct {
	frame       uint64
	correlation uint32
}

// An entry is a string, or events on thread 0, that a frame gave.
type entry struct {
	frame uint64
	kind  uint16
	id    uint32
	text  string
	event []byte
}

// Pin has the Sender keep what Snapshot needs.
func (s *Sender) Pin() { s.pinned = &pinned{} }

func (s *Sender) pin(e entry) {
	if s.pinned != nil {
		e.frame = s.number
		s.pinned.entries = append(s.pinned.entries, e)
	}
}

// Launched notes the last launch of the frame that is sent next.
func (s *Sender) Launched(correlation uint32) {
	p := s.pinned
	if p == nil {
		return
	}
	if n := len(p.launches); n > 0 && p.launches[n-1].frame == s.number {
		p.launches[n-1].correlation = correlation
		return
	}
	p.launches = append(p.launches, mark{s.number, correlation})
}

// pinEvent has the snapshot give an event.
func (s *Sender) pinEvent(event []byte) {
	s.pin(entry{kind: kindEvents, event: append([]byte(nil), event...)})
}

// PinNode has the snapshot give a graph node, with the string of its label.
func (s *Sender) PinNode(node uint64, label string) {
	if s.pinned == nil {
		return
	}
	n := Sender{Now: s.Now}
	id := s.ID(label)
	n.event(evPush, 32, 0)
	n.events = append32(n.events, 0, id, 0, 1)
	n.NodeCreated(0, node, true, 0)
	n.Pop(0, 0, 0)
	s.pin(entry{kind: kindEvents, event: n.events})
}

// PinPopped has the snapshot give a range whose payload came with its pop: NCCL says so who is in a
// communicator.
func (s *Sender) PinPopped(domain uint32, text string, schema uint64, data []byte) {
	n := Sender{Now: s.Now, schemas: s.schemas, seen: map[string]bool{}}
	n.Push(0, domain, 1, text)
	n.PopPayload(0, domain, 1, schema, data)
	n.Pop(0, domain, 0)
	s.pin(entry{kind: kindEvents, event: n.events})
}

// Free tells that the collector has had all frames up to one, and that they are freed.
func (s *Sender) Free(frame uint64) {
	p := s.pinned
	p.base.frame = max(p.base.frame, frame)
	n := 0
	for ; n < len(p.launches) && p.launches[n].frame <= frame; n++ {
		p.base.correlation, p.any = p.launches[n].correlation, true
	}
	p.launches = slices.Delete(p.launches, 0, n)
}

// Drop tells that all frames up to one are freed, whether the collector has had them or not.
func (s *Sender) Drop(frame uint64) { s.pinned.base.frame = max(s.pinned.base.frame, frame) }

// Lose tells that the collector never has a frame: its launches are unknown to it.
func (s *Sender) Lose(frame uint64) {
	p := s.pinned
	p.launches = slices.DeleteFunc(p.launches, func(m mark) bool { return m.frame == frame })
}

// Snapshot is the state after the last freed frame, as pinned frames, and BASE.
func (s *Sender) Snapshot() (frames [][]byte) {
	out := Sender{flags: flagPinned, emit: func(_ uint64, frame []byte) { frames = append(frames, frame) }}
	for _, e := range s.pinned.entries {
		switch {
		case e.frame > s.pinned.base.frame:
			continue
		case e.kind == kindStrings:
			out.strings = padded(append32(out.strings, e.id, uint32(len(e.text))), e.text)
		default:
			out.events = append(out.events, e.event...)
		}
		if len(out.strings)+len(out.events) >= eventsAtOnce {
			out.Cut()
		}
	}
	out.Cut()
	out.flags = 0
	out.send(kindBase, append32(append64(nil, s.pinned.base.frame), s.pinned.base.correlation, flag(s.pinned.any, 1)))
	return frames
}
