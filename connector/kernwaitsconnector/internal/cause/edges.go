package cause

import (
	"slices"

	"github.com/kernhes/kernhes/internal/digest"
)

// Edges are inclusive upper bounds of the buckets of batch and kv, as the receiver has them.
type Edges struct{ Batch, KV []int64 }

// Standard are the receiver's defaults.
var Standard = Edges{
	Batch: []int64{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768},
	KV:    []int64{1024, 4096, 16384, 65536, 131072, 262144, 1048576},
}

// muchMore is by how much the context of a batch must be longer, in percent, where its bucket is the same.
const muchMore = 25

// more reports whether a step has other or more work than another.
func (e *Edges) more(s, than *digest.Step) bool {
	if s.Program != than.Program {
		return true
	}
	bucket := func(edges []int64, n int64) int {
		i, _ := slices.BinarySearch(edges, n)
		return i
	}
	tokens := func(s *digest.Step) int64 {
		if s.Tokens == 0 {
			return s.Seqs
		}
		return s.Tokens
	}
	each := func(s *digest.Step) int64 { return (s.KV + max(s.Seqs, 1) - 1) / max(s.Seqs, 1) }
	return bucket(e.Batch, tokens(s)) > bucket(e.Batch, tokens(than)) || bucket(e.KV, each(s)) > bucket(e.KV, each(than)) ||
		s.KV*100 > than.KV*(100+muchMore)
}
