package wire

// An EventKind says what an event of an EVENTS frame is.
type EventKind uint16

// Kinds of events.
const (
	EventPush           EventKind = 1
	EventPop            EventKind = 2
	EventStart          EventKind = 3
	EventEnd            EventKind = 4
	EventLaunch         EventKind = 5
	EventCaptured       EventKind = 6
	EventNodeCreated    EventKind = 7
	EventNodeCloned     EventKind = 8
	EventGraphForgotten EventKind = 9
	EventNodeForgotten  EventKind = 10
	EventDomain         EventKind = 11
	EventSchema         EventKind = 12
	EventPayload        EventKind = 13
	EventTracingOn      EventKind = 14
	EventTracingOff     EventKind = 15
)

// Why tracing began or ended.
const (
	TracingOrdered   = 1 // as the order says
	TracingCancelled = 2 // the collector cancelled the window
	TracingYielded   = 3 // the collector asked to yield CUPTI
	TracingOverdue   = 4 // no thread came to an edge; the step that ran then is cut
	TracingFailed    = 5 // CUPTI reported an error
)

const (
	// DepthUnknown is the depth of a push or pop whose sender did not count.
	DepthUnknown = 0xffffffff
	// LaunchGraph is the flag of a graph launch.
	LaunchGraph = 1
	// NodeInLaunch is the flag of a node made inside a launch call: a kernel.
	NodeInLaunch = 1
	// ThreadLabels is the thread of pinned pushes that only label pinned nodes.
	ThreadLabels = 0
	// MaxText is the longest text of an event or a string, in bytes.
	MaxText = 4096
)

const eventHead = 16

// eventSizes has the fixed size of each kind, and where the length of its text lies, if it has one.
var eventSizes = [...]struct{ size, textLength int }{
	EventPush: {32, 24}, EventPop: {24, 0}, EventStart: {40, 32}, EventEnd: {24, 0}, EventLaunch: {24, 0},
	EventCaptured: {24, 0}, EventNodeCreated: {32, 0}, EventNodeCloned: {32, 0}, EventGraphForgotten: {24, 0},
	EventNodeForgotten: {24, 0}, EventDomain: {24, 20},
	EventSchema: {48, 36}, EventPayload: {56, 40}, EventTracingOn: {32, 0}, EventTracingOff: {32, 0},
}

// An Event is one event as it lies on the wire. Each accessor is of the kinds that its comment names.
type Event struct{ b []byte }

func (e Event) Kind() EventKind { return EventKind(le.Uint16(e.b)) }
func (e Event) Thread() uint32  { return le.Uint32(e.b[4:]) }
func (e Event) Time() uint64    { return le.Uint64(e.b[8:]) } // unix ns

// Domain of PUSH, POP, START, DOMAIN, SCHEMA, PAYLOAD.
func (e Event) Domain() uint32 {
	switch e.Kind() {
	case EventStart, EventSchema, EventPayload:
		return le.Uint32(e.b[24:])
	}
	return le.Uint32(e.b[16:])
}

// Text of PUSH, START, DOMAIN: a string id, or 0 and the text itself.
func (e Event) Text() (id uint32, text []byte) {
	s := eventSizes[e.Kind()]
	if e.Kind() != EventDomain {
		id = le.Uint32(e.b[s.textLength-4:])
	}
	return id, e.b[s.size : s.size+int(le.Uint32(e.b[s.textLength:]))]
}

// Depth of the thread in the domain after PUSH, POP; of the range of a PAYLOAD, itself counted; or DepthUnknown.
func (e Event) Depth() uint32 {
	if e.Kind() == EventPush || e.Kind() == EventPayload {
		return le.Uint32(e.b[28:])
	}
	return le.Uint32(e.b[20:])
}

// Range of START, END, PAYLOAD.
func (e Event) Range() uint64 { return le.Uint64(e.b[16:]) }

// Correlation of LAUNCH, CAPTURED.
func (e Event) Correlation() uint32 { return le.Uint32(e.b[16:]) }

// GraphLaunch reports whether a LAUNCH is of a graph.
func (e Event) GraphLaunch() bool { return le.Uint32(e.b[20:])&LaunchGraph != 0 }

// Node of NODE_CREATED, NODE_FORGOTTEN; the original of NODE_CLONED.
func (e Event) Node() uint64 { return le.Uint64(e.b[16:]) }

// InLaunch reports whether a NODE_CREATED was made inside a launch call.
func (e Event) InLaunch() bool { return le.Uint32(e.b[24:])&NodeInLaunch != 0 }

// NodeType of NODE_CREATED: the CUgraphNodeType, or 0 where CUPTI does not say.
func (e Event) NodeType() uint32 { return le.Uint32(e.b[28:]) }

// Clone of NODE_CLONED.
func (e Event) Clone() uint64 { return le.Uint64(e.b[24:]) }

// Graph of GRAPH_FORGOTTEN.
func (e Event) Graph() uint32 { return le.Uint32(e.b[16:]) }

// Window of TRACING_ON, TRACING_OFF: the id of the order.
func (e Event) Window() uint64 { return le.Uint64(e.b[16:]) }

// Reason of TRACING_ON, TRACING_OFF.
func (e Event) Reason() uint32 { return le.Uint32(e.b[24:]) }

// Events calls f with each event of an EVENTS body, in order; those of unknown kinds are left out.
// All of the body is checked before the first call, so an error means that nothing was taken.
func Events(body []byte, f func(Event)) error {
	if err := checkEvents(body); err != nil {
		return err
	}
	for len(body) > 0 {
		n := int(le.Uint16(body[2:]))
		if k := le.Uint16(body); k > 0 && int(k) < len(eventSizes) {
			f(Event{body[:n:n]})
		}
		body = body[n:]
	}
	return nil
}

func checkEvents(body []byte) error {
	for at := 0; at < len(body); {
		b := body[at:]
		if len(b) < eventHead {
			return bad(KindEvents, at, "%d bytes left, an event has at least %d", len(b), eventHead)
		}
		n := int(le.Uint16(b[2:]))
		if n < eventHead || n%8 != 0 || n > len(b) {
			return bad(KindEvents, at, "event of %d bytes with %d left", n, len(b))
		}
		if k := int(le.Uint16(b)); k > 0 && k < len(eventSizes) {
			s := eventSizes[k]
			if n < s.size {
				return bad(KindEvents, at, "event of kind %d with %d bytes, want %d", k, n, s.size)
			}
			if s.textLength > 0 {
				if text := le.Uint32(b[s.textLength:]); text > MaxText || int(text) > n-s.size {
					return bad(KindEvents, at, "text of %d bytes in an event of %d", text, n)
				}
			}
			if EventKind(k) == EventSchema {
				if err := checkEntries(Event{b[:n]}.Data(), at); err != nil {
					return err
				}
			}
		}
		at += n
	}
	return nil
}
