package oracle

import (
	"strings"

	"github.com/kernhes/kernhes/internal/krec"
)

// A step is one step range of the default domain.
type step struct {
	order    int // of its push among all steps'
	text     string
	ended    bool // its pop came
	launches []*launch
}

// An open range of the default domain; step is nil unless its text says that it is one.
type open struct {
	text string
	step *step
}

// A launch is a launch call that was entered.
type launch struct {
	at       int // frame
	time     int64
	thread   uint32
	graph    bool
	captured bool
	step     *step
	call     string
	got      map[uint64]bool // kernel records by node (0 for an eager launch)
	graphs   map[uint64]bool // graph ids of its kernels and copies
}

// A node is what was known of a graph node from a frame on.
type node struct {
	at     int
	call   string
	kernel bool // created inside a launch call
}

type session struct {
	stacks   map[uint32][]open // by thread
	steps    []*step
	launches []*launch
	byID     map[uint32][]*launch // by correlation id, in order
	last     map[uint32]*launch   // by thread
	within   map[uint32][]*node   // by thread: nodes created since its last launch was entered
	nodes    map[uint64][]*node   // history by node id
}

func newSession() *session {
	return &session{map[uint32][]open{}, nil, nil, map[uint32][]*launch{}, map[uint32]*launch{}, map[uint32][]*node{}, map[uint64][]*node{}}
}

func (s *session) push(f *krec.Push) {
	if f.Domain != 0 {
		return
	}
	o := open{text: f.Text}
	if strings.HasPrefix(f.Text, "step:") {
		o.step = &step{order: len(s.steps), text: f.Text}
		s.steps = append(s.steps, o.step)
	}
	s.stacks[f.Thread] = append(s.stacks[f.Thread], o)
}

func (s *session) pop(f *krec.Pop) {
	stack := s.stacks[f.Thread]
	if f.Domain != 0 || len(stack) == 0 {
		return
	}
	if top := stack[len(stack)-1]; top.step != nil {
		top.step.ended = true
	}
	s.stacks[f.Thread] = stack[:len(stack)-1]
}

// step is the innermost step open on a thread, or nil.
func (s *session) step(thread uint32) *step {
	stack := s.stacks[thread]
	for i := len(stack) - 1; i >= 0; i-- {
		if stack[i].step != nil {
			return stack[i].step
		}
	}
	return nil
}

// call is the innermost range open on a thread, unless that is a step's: then there is none.
func (s *session) call(thread uint32) string {
	stack := s.stacks[thread]
	if len(stack) == 0 || stack[len(stack)-1].step != nil {
		return ""
	}
	return stack[len(stack)-1].text
}

func (s *session) launch(at int, f *krec.Launch) {
	l := &launch{at: at, time: int64(f.Time), thread: f.Thread, graph: f.Graph(), step: s.step(f.Thread), call: s.call(f.Thread),
		got: map[uint64]bool{}, graphs: map[uint64]bool{}}
	if l.step != nil {
		l.step.launches = append(l.step.launches, l)
	}
	s.launches = append(s.launches, l)
	s.byID[f.Correlation] = append(s.byID[f.Correlation], l)
	s.last[f.Thread] = l
	s.within[f.Thread] = nil
}

func (s *session) created(at int, f *krec.NodeCreated) {
	n := &node{at: at, call: s.call(f.Thread)}
	s.nodes[f.Node] = append(s.nodes[f.Node], n)
	s.within[f.Thread] = append(s.within[f.Thread], n)
}

// cloned gives the clone what is known of its original by now, also when it had another.
func (s *session) cloned(at int, f *krec.NodeCloned) {
	n := &node{at: at}
	if original := s.nodes[f.Original]; len(original) > 0 {
		n.call, n.kernel = original[len(original)-1].call, original[len(original)-1].kernel
	}
	s.nodes[f.Clone] = append(s.nodes[f.Clone], n)
}

// captured marks the latest launch of that id, and the nodes created inside its call as kernels.
func (s *session) captured(f *krec.Captured) {
	of := s.byID[f.Correlation]
	if len(of) == 0 {
		return
	}
	l := of[len(of)-1]
	l.captured = true
	if s.last[l.thread] == l {
		for _, n := range s.within[l.thread] {
			n.kernel = true
		}
		s.within[l.thread] = nil
	}
}

// match is the launch that a record is of: the latest of that id that was entered before the record came, was not
// captured, and was entered at most slack after the record's start; nil if there is none.
func (s *session) match(r krec.Record) *launch {
	of := s.byID[r.Correlation()]
	for i := len(of) - 1; i >= 0; i-- {
		if !of[i].captured && (r.Start() == 0 || int64(r.Start()) >= of[i].time-slack) {
			return of[i]
		}
	}
	return nil
}

// known is what was known of a node at a frame, or nil.
func (s *session) known(id uint64, at int) *node {
	var known *node
	for _, n := range s.nodes[id] {
		if n.at < at {
			known = n
		}
	}
	return known
}

// fulfilled says whether all records of a launch have come: none of one captured, one of an eager one, of a graph one for
// each kernel launch that was captured into it. A graph whose capture was not seen has what came, but something must.
func (s *session) fulfilled(l *launch) bool {
	switch {
	case l.captured:
		return true
	case !l.graph:
		return len(l.got) == 1
	}
	want := 0
	for id := range s.nodes {
		if l.graphs[id>>32] && s.known(id, l.at) != nil && s.known(id, l.at).kernel {
			want++
		}
	}
	return len(l.graphs) > 0 && len(l.got) >= want
}

// complete says whether a step's range ended and each of its launches has its records.
func (s *session) complete(p *step) bool {
	for _, l := range p.launches {
		if !s.fulfilled(l) {
			return false
		}
	}
	return p.ended
}

func (s *session) counts() Counts {
	c := Counts{Launches: len(s.launches), StepRanges: len(s.steps)}
	for _, l := range s.launches {
		if l.captured {
			c.CapturedLaunches++
		}
		if !s.fulfilled(l) {
			c.UnfulfilledLaunches++
		}
	}
	return c
}
