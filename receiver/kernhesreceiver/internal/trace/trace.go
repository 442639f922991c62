// Package trace turns a final step into spans: the step, the levels of its calls' labels, its kernels.
package trace

import (
	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// A Layout is what lies between a step and its kernels.
type Layout string

// Layouts.
const (
	Tree Layout = "tree" // spans for the levels of labels
	Flat Layout = "flat" // nothing
)

// A Source is a rank of which steps come. It never changes.
type Source struct {
	Run      string
	Rank     int64
	Session  uint64
	Mode     string      // of tracing: hes, software, off
	Resource pcommon.Map // as the rank's metrics have it
	run      Run
}

// NewSource returns the source of a rank of a run, seen in a session.
func NewSource(run string, rank int64, session uint64, mode string, resource pcommon.Map) *Source {
	return &Source{Run: run, Rank: rank, Session: session, Mode: mode, Resource: resource, run: RunOf(run)}
}

// A Step is a final step and whose it is.
type Step struct {
	*step.Step
	Source *Source
	Seq    uint64 // below 2^63
	Pairs  bool   // the same seq means the same step on other ranks
	// Labels of the step's metrics.
	BatchBucket, KVBucket string
}

// TraceID is the step's trace.
func (s *Step) TraceID() pcommon.TraceID { return s.Source.run.ID(s.Seq) }

// SpanID is the step's own span.
func (s *Step) SpanID() pcommon.SpanID { return seedOf(s).id(ofStep, 0) }

// Candidate is the step as sampling weighs it.
func (s *Step) Candidate() sample.Candidate[Step] {
	c := sample.Candidate[Step]{
		Trace: s.TraceID(), Run: s.Source.run[0], Series: s.series(), Seq: s.Seq, Rank: s.Source.Rank,
		Kernels: len(s.Spans), Bytes: s.bytes(), Item: *s,
	}
	if s.Complete() {
		c.Wall = s.Wall()
	}
	return c
}

// series hashes what the wall times of steps are compared within.
func (s *Step) series() uint64 {
	h := s.Source.run[0]
	for _, text := range [...]string{s.Program, s.BatchBucket, s.KVBucket} {
		h = h*0x9e3779b97f4a7c15 + xxhash.Sum64String(text) // an odd factor, so that the order counts
	}
	return h
}

// bytes is what the step holds in memory, its shape aside.
func (s *Step) bytes() int {
	const fixed, kernel = 1024, 24
	n := fixed + kernel*cap(s.Spans)
	if r := s.Recorded(); len(r.Spans) > 0 && &r.Spans[0] != &s.Spans[0] {
		n += kernel * cap(r.Spans)
	}
	return n
}

// Options say how spans are made. The zero Options are valid.
type Options struct {
	Layout  Layout // Default: Tree
	Version string // of the receiver
}
