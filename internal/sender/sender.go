// Package sender turns what a shim hears into the frames that it sends: what the tests' fake shim
// and the simulated fleet share. It writes the layouts of WIRE.md by hand, so that it can disagree
// with the code under test.
package sender

const (
	eventsAtOnce  = 32 << 10 // bytes: a longer run of events becomes several frames
	recordsAtOnce = 4096     // of one frame
)

// A Sender gathers frames. Strings and events wait until something else is sent, or there are many.
type Sender struct {
	Now       uint64 // unix ns, of the events to come
	Monotonic uint64 // CLOCK_MONOTONIC less CLOCK_REALTIME
	Flushed   uint64 // Now at the last flush
	Kernels   uint64 // records sent
	Copies    uint64

	emit    func(number uint64, frame []byte)
	number  uint64 // of the next frame; 0: not numbered
	flags   uint16
	strings []byte
	events  []byte
	ids     map[string]uint32 // by text
	pool    int               // bytes of all texts with an id
	seen    map[string]bool   // range texts that have occurred
	schemas map[schemaKey]*schema
	pinned  *pinned // nil: no snapshot is asked for
}

// New returns a Sender that gives each frame, with its head, to emit. Frames are numbered after
// Base.
func New(emit func(number uint64, frame []byte)) *Sender {
	return &Sender{emit: emit, ids: map[string]uint32{}, seen: map[string]bool{}}
}

func (s *Sender) send(kind uint16, body []byte) {
	head := append64(append16(append32(make([]byte, 0, frameHead+len(body)), uint32(len(body))), kind, s.flags), s.number)
	s.emit(s.number, append(head, body...))
	if s.number > 0 {
		s.number++
	}
}

// frame sends what waits, then a frame.
func (s *Sender) frame(kind uint16, body []byte) {
	s.Cut()
	s.send(kind, body)
}

// Cut sends what waits: strings before the events that use them.
func (s *Sender) Cut() {
	if len(s.strings) > 0 {
		s.send(kindStrings, s.strings)
		s.strings = s.strings[:0]
	}
	if len(s.events) > 0 {
		s.send(kindEvents, s.events)
		s.events = s.events[:0]
	}
}

// Next is the number of the next frame that is sent.
func (s *Sender) Next() uint64 { return s.number }

// Hello sends HELLO: keys and values by turns. It has no number.
func (s *Sender) Hello(session uint64, pairs ...string) {
	body := append16(append64(nil, magic), version, 0)
	s.send(kindHello, appendPairs(append64(append32(body, 0), session), pairs))
}

// Base sends a snapshot of nothing: the session is heard from its first frame, which is the next.
func (s *Sender) Base() {
	s.send(kindBase, append64(nil, 0, 0))
	s.number = 1
}

// Info sends keys and values by turns.
func (s *Sender) Info(pairs ...string) { s.frame(kindInfo, appendPairs(nil, pairs)) }

func appendPairs(b []byte, pairs []string) []byte {
	for i := 0; i < len(pairs); i += 2 {
		b = append32(append16(b, uint16(len(pairs[i])), 0), uint32(len(pairs[i+1])))
		b = append(append(b, pairs[i]...), pairs[i+1]...)
	}
	return b
}

// event appends an event; the caller appends size-16 bytes of its own to s.events.
func (s *Sender) event(kind uint16, size int, thread uint32) {
	if len(s.events)+size > eventsAtOnce+maxText {
		s.Cut()
	}
	s.events = append64(append32(append16(s.events, kind, uint16(size)), thread), s.Now)
}

// Event sends an event of any kind, whose body the caller has laid out: up to 64 KiB with its head, a multiple of 8 bytes.
func (s *Sender) Event(kind uint16, thread uint32, body []byte) {
	s.event(kind, eventHead+len(body), thread)
	s.events = append(s.events, body...)
	s.full()
}

// full sends events when there are many.
func (s *Sender) full() {
	if len(s.events) >= eventsAtOnce {
		s.Cut()
	}
}

// Push sends a text inline when it occurs for the first time, by its id from then on: most steps'
// texts occur once.
func (s *Sender) Push(thread, domain, depth uint32, text string) {
	text = text[:min(len(text), maxText)]
	id := s.ids[text]
	if id == 0 && s.seen[text] {
		id = s.ID(text)
	}
	s.seen[text] = true
	if id != 0 {
		text = ""
	}
	s.event(evPush, 32+(len(text)+7)&^7, thread)
	s.events = padded(append32(s.events, domain, id, uint32(len(text)), depth), text)
	s.full()
}

// Once is Push of a text that occurs once: it is not remembered.
func (s *Sender) Once(thread, domain, depth uint32, text string) {
	text = text[:min(len(text), maxText)]
	s.event(evPush, 32+(len(text)+7)&^7, thread)
	s.events = padded(append32(s.events, domain, 0, uint32(len(text)), depth), text)
	s.full()
}

// Pop sends the end of the innermost range of a thread in a domain.
func (s *Sender) Pop(thread, domain, depth uint32) { s.pair(evPop, thread, domain, depth) }

// Launch sends a launch call.
func (s *Sender) Launch(thread, correlation uint32, graph bool) {
	s.pair(evLaunch, thread, correlation, flag(graph, launchGraph))
}

// Captured sends that a launch went into a graph.
func (s *Sender) Captured(thread, correlation uint32) { s.pair(evCaptured, thread, correlation, 0) }

func (s *Sender) pair(kind uint16, thread, a, b uint32) {
	s.event(kind, 24, thread)
	s.events = append32(s.events, a, b)
	s.full()
}

// NodeCreated sends a graph node, made inside a launch call or not.
func (s *Sender) NodeCreated(thread uint32, node uint64, inLaunch bool, typ uint32) {
	s.event(evNodeCreated, 32, thread)
	s.events = append32(append64(s.events, node), flag(inLaunch, nodeInLaunch), typ)
	s.full()
}

// NodeCloned sends that a node was made from another.
func (s *Sender) NodeCloned(original, clone uint64) {
	s.event(evNodeCloned, 32, 0)
	s.events = append64(s.events, original, clone)
	s.full()
}

// Domain sends an NVTX domain.
func (s *Sender) Domain(id uint32, name string) {
	s.event(evDomain, 24+(len(name)+7)&^7, 0)
	from := len(s.events) - eventHead
	s.events = padded(append32(s.events, id, uint32(len(name))), name)
	s.pinEvent(s.events[from:])
	s.full()
}

// ID gives a text its id, or 0 when the table is full or there is no text.
func (s *Sender) ID(text string) uint32 {
	text = text[:min(len(text), maxText)]
	if id := s.ids[text]; id != 0 || text == "" || len(s.ids) == maxStrings || s.pool+len(text) > maxPool {
		return id
	}
	id := uint32(len(s.ids) + 1)
	s.ids[text] = id
	s.pool += len(text)
	s.strings = padded(append32(s.strings, id, uint32(len(text))), text)
	s.pin(entry{id: id, text: text, kind: kindStrings})
	return id
}

// Clock sends a bracketed reading of CUPTI's clock.
func (s *Sender) Clock(before, cupti, after, monotonic uint64) {
	s.frame(kindClock, append64(nil, before, cupti, after, monotonic))
}

// Lost sends a loss.
func (s *Sender) Lost(l Loss) {
	s.frame(kindLost, append64(append32(nil, l.Reason, l.What), l.Count, l.From, l.To))
}

// Records sends kernels and copies.
func (s *Sender) Records(kernels []Kernel, copies []Copy) {
	sendRecords(s, kindKernels, kernels, (*Kernel).append, &s.Kernels)
	sendRecords(s, kindCopies, copies, (*Copy).append, &s.Copies)
}

// sendRecords sends records of one kind, recordsAtOnce a frame at most, and adds them to sent.
func sendRecords[T any](s *Sender, kind uint16, records []T, layOut func(*T, []byte) []byte, sent *uint64) {
	for len(records) > 0 {
		n := min(len(records), recordsAtOnce)
		body := make([]byte, 0, recordSize*n)
		for i := range records[:n] {
			body = layOut(&records[i], body)
		}
		s.frame(kind, body)
		records = records[n:]
		*sent += uint64(n)
	}
}

// Flush sends FLUSHED: what ended before at, and that no running kernel holds back, has been sent.
func (s *Sender) Flush(at uint64) {
	s.Flushed = at
	s.frame(kindFlushed, append32(append64(nil, s.Now, at, s.Now+s.Monotonic), readable, 0))
}

// Bye sends the last frame of a session.
func (s *Sender) Bye() { s.frame(kindBye, append64(append32(nil, byeExit, 0), s.Kernels, s.Copies)) }
