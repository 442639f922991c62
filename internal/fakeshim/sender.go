package fakeshim

import "github.com/kernhes/kernhes/internal/krec"

const (
	eventsAtOnce  = 32 << 10 // bytes: a longer run of events becomes several frames
	recordsAtOnce = 4096     // of one frame
)

// A sender gathers frames. Strings and events wait until something else is sent, or there are many.
type sender struct {
	frames    [][]byte
	number    uint64 // of the next frame; 0: not numbered
	now       uint64 // unix ns: the last event's
	flushed   uint64 // now at the last flush
	monotonic uint64 // CLOCK_MONOTONIC less CLOCK_REALTIME
	strings   []byte
	events    []byte
	ids       map[string]uint32 // by text
	pool      int               // bytes of all texts with an id
	seen      map[string]bool   // range texts that have occurred
	schemas   map[schemaKey]*schema
	kernels   uint64
	copies    uint64
}

func (s *sender) send(kind uint16, body []byte) {
	head := append64(append16(append32(nil, uint32(len(body))), kind, 0), s.number)
	s.frames = append(s.frames, append(head, body...))
	if s.number > 0 {
		s.number++
	}
}

// frame sends what waits, then a frame.
func (s *sender) frame(kind uint16, body []byte) {
	s.cut()
	s.send(kind, body)
}

// cut sends what waits: strings before the events that use them.
func (s *sender) cut() {
	if len(s.strings) > 0 {
		s.send(kindStrings, s.strings)
	}
	if len(s.events) > 0 {
		s.send(kindEvents, s.events)
	}
	s.strings, s.events = nil, nil
}

func (s *sender) event(kind uint16, thread uint32, payload []byte) {
	s.events = append16(s.events, kind, uint16(16+len(payload)))
	s.events = append32(s.events, thread)
	s.events = append64(s.events, s.now)
	s.events = append(s.events, payload...)
	if len(s.events) >= eventsAtOnce {
		s.cut()
	}
}

// push sends a text inline when it occurs for the first time, by its id from then on: most steps' texts occur once.
func (s *sender) push(f *krec.Push) {
	text := f.Text[:min(len(f.Text), maxText)]
	id := s.ids[text]
	if id == 0 && s.seen[text] {
		id = s.id(text)
	}
	s.seen[text] = true
	if id != 0 {
		text = ""
	}
	s.event(evPush, f.Thread, padded(append32(nil, f.Domain, id, uint32(len(text)), f.Depth), text))
}

// id gives a text its id, or 0 when the table is full or there is no text.
func (s *sender) id(text string) uint32 {
	text = text[:min(len(text), maxText)]
	if id := s.ids[text]; id != 0 || text == "" || len(s.ids) == maxStrings || s.pool+len(text) > maxPool {
		return id
	}
	id := uint32(len(s.ids) + 1)
	s.ids[text] = id
	s.pool += len(text)
	s.strings = padded(append32(s.strings, id, uint32(len(text))), text)
	return id
}

// array sends records of 64 bytes.
func (s *sender) array(kind uint16, body []byte) {
	for len(body) > 0 {
		n := min(len(body), recordsAtOnce*64)
		s.frame(kind, body[:n])
		body = body[n:]
	}
}

// deliver sends the records of one delivery, then FLUSHED.
func (s *sender) deliver(d delivery) {
	s.now = max(s.now, d.at)
	var kernels, copies []byte
	for _, r := range d.records {
		if r.Kind() == krec.KindKernel {
			kernels = appendKernel(kernels, r.Record, s.id(r.name))
			s.kernels++
		} else {
			copies = appendCopy(copies, r.Record)
			s.copies++
		}
	}
	s.array(kindKernels, kernels)
	s.array(kindCopies, copies)
	s.flushed = d.at
	s.frame(kindFlushed, append32(append64(nil, s.now, d.at, s.now+s.monotonic), readable, 0))
}
