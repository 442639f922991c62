// Package program says which kernels an engine launches for a batch, and how long each takes by
// itself.
//
// The programs are in the manner of kern's DSv4.1 Flash: an eager prefill, a decode that is
// replayed as a graph, and one fused kernel of experts a layer, in which the ranks meet.
package program

import "math"

// Tick is the resolution of kernel times in ns.
const Tick = 32

// A Cost is the time of a kernel, in ns.
type Cost struct {
	Fixed float64
	Token float64 // for each token that is computed
	KV    float64 // for each 1,024 tokens of context
	Both  float64 // for each 1,000,000 pairs of a token and a token of context
}

// A Batch is what one step computes.
type Batch struct {
	Program string // prefill, decode_batch, mixed or dummy
	Seqs    int
	Tokens  int
	KV      int // tokens of context, summed over sequences
}

// Ticks is the time of a batch.
func (c Cost) Ticks(b Batch) int64 {
	ns := c.Fixed + c.Token*float64(b.Tokens) + c.KV*float64(b.KV)/1024 + c.Both*float64(b.Tokens)*float64(b.KV)/1e6
	return max(1, int64(math.Round(ns/Tick)))
}

// A Kernel is one launch of a program.
type Kernel struct {
	Call  string // label
	Op    string
	Name  string // of the kernel
	Cost  Cost
	Meets Meeting // Cost is then the rank's part of the work after all have arrived
	Bytes float64 // of a collective of NCCL, for each token
	NCCL  string  // its function: ncclAllReduce
	Layer int     // of a meeting
	Side  bool    // runs beside the main stream, from where it is launched up to the end of the next meeting
	Grid  [3]uint32
	Block [3]uint32
}

// A Program is the launches of one batch's kind.
type Program struct {
	Name    string
	Graph   bool // replayed as one graph; else launched kernel by kernel
	Kernels []Kernel
}

// Mode is the prefix of the labels of a batch's program, which is not its name.
func mode(name string) string {
	switch name {
	case "decode_batch", "dummy":
		return "decode"
	}
	return "prefill"
}

// Graph reports whether a program is replayed as a graph.
func Graph(name string) bool { return mode(name) == "decode" }

// Buckets are the numbers of sequences that graphs are captured for.
var Buckets = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256}

// Bucket is the least number of sequences of a graph that holds n.
func Bucket(n int) int {
	for _, b := range Buckets {
		if n <= b {
			return b
		}
	}
	return Buckets[len(Buckets)-1]
}
