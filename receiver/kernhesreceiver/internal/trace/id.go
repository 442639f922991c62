package trace

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/collector/pdata/pcommon"
)

// A Run is a run's name, ready for hashing with a seq.
type Run [2]uint64

// The halves of a trace id are two hashes of one thing, told apart by what comes first.
const (
	high = "kernhes trace id, high half\x00"
	low  = "kernhes trace id, low half\x00"
)

// RunOf is the run of a name.
func RunOf(name string) Run {
	return Run{xxhash.Sum64String(high + name), xxhash.Sum64String(low + name)}
}

// ID is the trace of a step of a run. It rests on nothing else, so that all ranks, and all collectors, come to the same one.
func (r Run) ID(seq uint64) (id pcommon.TraceID) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[8:], seq)
	for half, h := range r {
		binary.BigEndian.PutUint64(b[:8], h)
		binary.BigEndian.PutUint64(id[8*half:], xxhash.Sum64(b[:]))
	}
	return id
}

// A seed is what the span ids of one step on one device are made from. The moment and the thread of the step's range tell
// apart steps that wrongly share a seq; both are the same when an engine sends its frames again.
type seed uint64

func seedOf(s *Step) seed {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], s.Source.Session)
	binary.BigEndian.PutUint64(b[8:], s.Begun)
	binary.BigEndian.PutUint32(b[16:], s.Thread)
	binary.BigEndian.PutUint16(b[20:], s.Device)
	return seed(xxhash.Sum64(b[:]))
}

// Kinds of spans, part of their ids.
const (
	ofStep   = 0
	ofLevel  = 1
	ofKernel = 2
)

// id is the id of the nth span of a kind.
func (s seed) id(kind, n int) (id pcommon.SpanID) {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:], uint64(s))
	binary.BigEndian.PutUint64(b[8:], uint64(kind))
	binary.BigEndian.PutUint64(b[16:], uint64(n))
	binary.BigEndian.PutUint64(id[:], max(xxhash.Sum64(b[:]), 1)) // 0 is no id
	return id
}
