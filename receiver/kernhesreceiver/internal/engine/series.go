package engine

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
)

// A seriesKey is the labels of a step's metrics.
type seriesKey struct{ program, batch, kv string }

// overflow is the label set of what came when all others were taken.
var overflow = seriesKey{"other", "other", "other"}

// maxProgram is the longest program name that is a label, in bytes.
const maxProgram = 64

// labels are the labels of a step's metrics.
func (c *common) labels(s *ranges.Step) seriesKey {
	seqs := max(s.Seqs, 1)
	tokens := cmp.Or(s.Tokens, s.Seqs)
	key := seriesKey{s.Program, c.buckets.batch.label(tokens), c.buckets.kv.label((s.KV + seqs - 1) / seqs)}
	if len(key.program) > maxProgram {
		key.program = strings.ToValidUTF8(key.program[:maxProgram], "") // a character may be cut in two
	}
	return key
}

// seriesOf is the series that a step counts in.
func (p *Process) seriesOf(d *deviceState, s *step.Step) *SeriesReport {
	key := p.set.labels(&s.Step)
	switch {
	case d.series[key] != nil:
	case len(d.series) >= p.set.maxSeries:
		key = overflow
		p.overflowed++
	case key != overflow && !p.seat(placesOfLabelSet):
		key = overflow
		p.unseated++
	}
	r := d.series[key]
	if r == nil {
		r = &SeriesReport{Program: key.program, Batch: key.batch, KV: key.kv, Wall: wall.Counts{Layout: p.set.wall}}
		d.series[key] = r
	}
	return r
}

// add counts a complete step.
func (s *SeriesReport) add(t *step.Step) {
	s.Steps++
	s.ComputeNS += t.Compute
	s.CommNS += t.ExposedComm
	s.ForeignNS += t.Foreign
	s.AddWall(t.Wall())
}

// buckets are the edges of the labels batch and kv.
type buckets struct{ batch, kv bucketing }

// A bucketing is inclusive upper bounds in ascending order, with their texts.
type bucketing struct {
	edges []int64
	texts []string
}

func newBuckets(batch, kv []int64) buckets { return buckets{newBucketing(batch), newBucketing(kv)} }

func newBucketing(edges []int64) bucketing {
	b := bucketing{edges: edges}
	for _, e := range edges {
		b.texts = append(b.texts, strconv.FormatInt(e, 10))
	}
	b.texts = append(b.texts, "+Inf")
	return b
}

// label is the bucket of n: `unknown` for 0, which stands for what was not given.
func (b *bucketing) label(n int64) string {
	if n == 0 {
		return "unknown"
	}
	i, _ := slices.BinarySearch(b.edges, n)
	return b.texts[i]
}
