package engine

import (
	"maps"
	"strconv"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// A Source is a rank of an engine process, on one device. It never changes: a process that learns more of itself makes a new one.
type Source struct {
	Info    map[string]string // HELLO's pairs as INFO changed them, with the settled run
	Rank    int64
	Device  int
	Session uint64
	Mode    string // of tracing: hes, software, off
}

// Run is the run of the rank.
func (s *Source) Run() string { return s.Info["run"] }

// Instance is run/rank/pid, and the device where it has no rank: the service.instance.id of a rank that is alone.
func (s *Source) Instance() string {
	name := s.Info["run"] + "/" + strconv.FormatInt(s.Rank, 10) + "/" + s.Info["pid"]
	if s.Rank == NoRank {
		name += "/" + strconv.Itoa(s.Device)
	}
	return name
}

// A FinalStep is a step that does not change any more, with its number and its source.
type FinalStep struct {
	*step.Step
	Source *Source
	Seq    uint64 // below 2^63
	Pairs  bool   // the same seq means the same step on other ranks
	// Labels of the step's metrics.
	BatchBucket, KVBucket string
}

// A SpanID names a span of a trace.
type SpanID struct {
	Trace [16]byte
	Span  [8]byte
}

// A Sink takes final steps. The engines of all sessions call it, each under the lock of its own session.
type Sink interface {
	// Take returns the span that will stand for the step; false: there will be none.
	Take(FinalStep) (SpanID, bool)
}

// source is the source of a device's steps of a rank.
func (p *Process) source(d *deviceState, rank int64) *Source {
	if d.source == nil || d.source.Rank != rank {
		d.source = &Source{Info: maps.Clone(p.info), Rank: rank, Device: int(d.id), Session: p.session, Mode: p.mode}
	}
	return d.source
}

// finalStep is a final step as sinks take it.
func (p *Process) finalStep(d *deviceState, s *step.Step, n numbered) FinalStep {
	labels := p.set.labels(&s.Step)
	return FinalStep{
		Step: s, Source: p.source(d, d.stepRank(s)), Seq: n.seq, Pairs: n.pairs,
		BatchBucket: labels.batch, KVBucket: labels.kv,
	}
}

// A Notice is a message for the receiver's log.
type Notice struct {
	Level   Level
	Message string
	Pairs   []Pair
}

// A Pair is a key of a notice, with its value.
type Pair struct {
	Key   string
	Value any
}

// A Level is how grave a notice is.
type Level uint8

// Levels.
const (
	LevelInfo Level = iota
	LevelWarn
	LevelError
)

// notice gives the receiver a message to log.
func (p *Process) notice(level Level, message string, pairs ...Pair) {
	if p.set.notice != nil {
		p.set.notice(Notice{level, message, pairs})
	}
}
