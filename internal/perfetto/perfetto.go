// Package perfetto turns one step of all ranks into a trace that ui.perfetto.dev opens: a process for each rank; in it a
// track of the step, one of the calls, one for each stream.
package perfetto

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
)

// A Step is one step of all ranks.
type Step struct {
	Run   string
	Seq   uint64
	Ranks []Rank
}

// A Rank is what one rank did in the step. Times are unix ns.
type Rank struct {
	Rank       int64
	Occurrence uint64 // among the steps of this number on the rank, from 0
	Host, GPU  string
	Program    string
	Vars       string
	Start, End uint64
	Foreign    uint64   // compute on the card that is not the step's, since the latest end of an earlier step, in ns
	Kernels    []Kernel // in order of the step
}

// A Kernel is one execution.
type Kernel struct {
	Start, End  uint64
	Stream      uint64
	Name        string
	Call, Op    string
	Class       string
	Fused       bool
	Grid, Block [3]uint64
}

// Write writes the step as a Perfetto trace. Its slices are exact to the nanosecond; clocks of different GPUs agree to
// ±20 µs, so starts of different ranks do not compare better than that.
func Write(to io.Writer, s *Step) error {
	w := &writer{
		out: bufio.NewWriter(to), names: newInterner(internedNames), categories: newInterner(internedCategories),
		annotations: newInterner(internedAnnotations),
	}
	ranks := slices.SortedStableFunc(slices.Values(s.Ranks), func(a, b Rank) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Start, b.Start)) })
	for i := range ranks {
		w.rank(s, &ranks[i], i)
	}
	if len(ranks) > 0 {
		w.clock(slices.MinFunc(ranks, func(a, b Rank) int { return cmp.Compare(a.Start, b.Start) }).Start)
	}
	interned := slices.Concat(w.categories.out, w.names.out, w.annotations.out)
	w.packet(message(nil).uint(packetSequenceFlags, sequenceCleared).message(packetInterned, interned))
	for _, p := range w.later {
		w.packet(p)
	}
	return w.out.Flush()
}

// A writer writes packets. Those that use interned texts come after the texts, which are known last.
type writer struct {
	out         *bufio.Writer
	names       *interner
	categories  *interner
	annotations *interner
	later       []message
	tracks      uint64
}

// sequence is the id of the only sequence of packets.
const sequence = 1

// packet writes a packet. The buffered writer keeps an error for Flush.
func (w *writer) packet(p message) {
	_, _ = w.out.Write(message(nil).message(tracePacket, p.uint(packetSequence, sequence)))
}

// clock says that the trace's time is unix time.
func (w *writer) clock(at uint64) {
	var m message
	for _, id := range []uint64{clockBoottime, clockRealtime} {
		m = m.message(snapshotClocks, message(nil).uint(clockID, id).uint(clockTimestamp, at))
	}
	w.packet(message(nil).message(packetClockSnapshot, m.uint(snapshotPrimary, clockBoottime)))
}

// track describes a track below parent, or that of a rank if parent is 0, and returns its id.
func (w *writer) track(parent uint64, order int, m message) uint64 {
	w.tracks++
	m = m.uint(trackUUID, w.tracks)
	if parent != 0 {
		m = m.uint(trackParent, parent).uint(trackRank, uint64(order))
	}
	w.packet(message(nil).message(packetTrackDescriptor, m))
	return w.tracks
}

// A slice is what stands on a track.
type slice struct {
	start, end uint64
	name       string
	category   string
	colour     uint64 // slices of one number have one colour; 0: by the name
	args       []arg
}

// An arg is a detail of a slice; an empty text is left out.
type arg struct{ name, text string }

// rank writes all of a rank.
func (w *writer) rank(s *Step, r *Rank, index int) {
	process := message(nil).uint(processPID, uint64(index)+1).text(processName, r.name())
	for _, label := range []string{r.Host, r.GPU} {
		if label != "" {
			process = process.text(processLabels, clean(label))
		}
	}
	id := w.track(0, 0, message(nil).message(trackProcess, process).uint(trackOrdering, orderExplicit))
	var more []arg
	if r.Occurrence > 0 {
		more = append(more, arg{"occurrence", fmt.Sprint(r.Occurrence)})
	}
	if r.Foreign > 0 {
		more = append(more, arg{"foreign_compute_ns", fmt.Sprint(r.Foreign)})
	}
	w.slices(id, 0, "step", []slice{{
		start: r.Start, end: r.End, name: r.Program, category: "step",
		args: append([]arg{{"run", s.Run}, {"seq", fmt.Sprint(s.Seq)}, {"vars", r.Vars}, {"kernels", fmt.Sprint(len(r.Kernels))}}, more...),
	}})
	w.slices(id, 1, "calls", calls(r.Kernels))
	streams := map[uint64][]slice{}
	for i := range r.Kernels {
		k := &r.Kernels[i]
		streams[k.Stream] = append(streams[k.Stream], k.slice())
	}
	order := make([]uint64, 0, len(streams))
	for stream := range streams {
		order = append(order, stream)
	}
	slices.Sort(order)
	for i, stream := range order {
		w.slices(id, 2+i, fmt.Sprintf("stream %d", stream), streams[stream])
	}
}

// name is what a rank's process is called: several steps of one number on a rank are processes of their own.
func (r *Rank) name() string {
	if r.Occurrence > 0 {
		return fmt.Sprintf("rank %d, occurrence %d", r.Rank, r.Occurrence)
	}
	return fmt.Sprintf("rank %d", r.Rank)
}

// colours of classes.
var colours = map[string]uint64{"compute": 1, "comm": 2, "spin": 3}

func (k *Kernel) slice() slice {
	s := slice{
		start: k.Start, end: k.End, name: k.Name, category: k.Class, colour: colours[k.Class],
		args: []arg{{"call", k.Call}, {"op", k.Op}, {"grid", size(k.Grid)}, {"block", size(k.Block)}},
	}
	if k.Fused {
		s.args = append(s.args, arg{"fused", "true"})
	}
	return s
}

func size(s [3]uint64) string { return fmt.Sprintf("%d,%d,%d", s[0], s[1], s[2]) }

// calls are the runs of kernels that have one call, each from the first start to the last end.
func calls(kernels []Kernel) (all []slice) {
	last := ""
	for i := range kernels {
		k := &kernels[i]
		switch {
		case k.Call == "":
		case k.Call == last:
			s := &all[len(all)-1]
			s.start, s.end = min(s.start, k.Start), max(s.end, k.End)
		default:
			all = append(all, slice{start: k.Start, end: k.End, name: k.Call, category: "call", args: []arg{{"op", k.Op}}})
		}
		last = k.Call
	}
	return all
}

// slices writes slices on a track of a name. Those that overlap go to further tracks of that name, which the viewer shows
// as rows of one: on one track a slice would have to lie within the other.
func (w *writer) slices(parent uint64, order int, name string, all []slice) {
	slices.SortStableFunc(all, func(a, b slice) int { return cmp.Compare(a.start, b.start) })
	type row struct{ track, end uint64 }
	var rows []row
	for i := range all {
		s := &all[i]
		k := slices.IndexFunc(rows, func(r row) bool { return r.end <= s.start })
		if k < 0 {
			k = len(rows)
			rows = append(rows, row{track: w.track(parent, order, message(nil).text(trackName, name))})
		}
		rows[k].end = s.end
		w.slice(rows[k].track, s)
	}
}

// slice writes a slice, once the texts are out.
func (w *writer) slice(track uint64, s *slice) {
	begin := message(nil).uint(eventType, sliceBegin).uint(eventTrack, track).
		uint(eventName, w.names.id(s.name)).uint(eventCategory, w.categories.id(s.category))
	if s.colour != 0 {
		begin = begin.uint(eventCorrelation, s.colour)
	}
	for _, a := range s.args {
		if a.text != "" {
			begin = begin.message(eventAnnotation,
				message(nil).uint(annotationName, w.annotations.id(a.name)).text(annotationText, clean(a.text)))
		}
	}
	end := message(nil).uint(eventType, sliceEnd).uint(eventTrack, track)
	w.event(s.start, begin)
	w.event(s.end, end)
}

func (w *writer) event(at uint64, m message) {
	w.later = append(w.later, message(nil).uint(packetTimestamp, at).uint(packetSequenceFlags, sequenceNeeds).message(packetTrackEvent, m))
}
