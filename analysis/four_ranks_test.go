package duckdb_test

import (
	"fmt"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
)

// layers are those of the model that four ranks run.
const layers = 9

// fourRanks is a run of four ranks: data-parallel attention, one fused kernel a layer for the experts. Ranks have sequences of
// their own, so their indexers take differently long; no expert kernel's work begins before the last rank has come, and all end
// together. What queries should find is noted as it is made.
type fourRanks struct {
	ranks        []chunktest.Rank
	all, prefill map[string]int64 // ns by what: of every program, and of prefill
	contexts     map[[2]string]*average
	work         [layers][]int64    // ns, of full steps
	waits        [layers][]int64    // ns, from the first rank to the last
	byRank       map[string]*waited // by call and rank
}

type average struct{ steps, ns int64 }

type waited struct{ times, wait, blame, transfer int64 }

// contextsOf are lengths of contexts and the article's names for them.
var contextsOf = []struct {
	kv   int64
	name string
}{{40_000, "up to 64k"}, {65_536, "64k to 128k"}, {200_000, "128k to 256k"}, {262_144, "256k and more"}}

const clock0 = 1_793_791_995_000_000_000 // unix ns

func newFourRanks(run string) *fourRanks {
	f := &fourRanks{all: map[string]int64{}, prefill: map[string]int64{}, contexts: map[[2]string]*average{}, byRank: map[string]*waited{}}
	var clocks [4]uint64
	for rank := range clocks {
		clocks[rank] = clock0
		f.ranks = append(f.ranks, chunktest.Rank{Identity: chunk.Identity{Run: run, Rank: int64(rank), Device: uint16(rank), Host: "host", Mode: "hes"}})
	}
	for seq := int64(1); seq <= 40; seq++ {
		switch {
		case seq%5 == 0:
			f.decode(seq, &clocks)
		case seq%5 == 3:
			f.forward(seq, 2, 4096, &clocks)
		default:
			f.forward(seq, 1, 32768, &clocks)
		}
		for rank := range clocks {
			clocks[rank] += 50_000
		}
	}
	for _, r := range f.ranks {
		var inside uint64
		var first, last uint64
		for _, s := range r.Steps {
			if s.Program == "prefill" {
				if first == 0 {
					first = s.Start
				}
				last = s.End
				inside += s.End - s.Start
			}
		}
		f.all["between steps"] += int64(last - first - inside)
		f.prefill["between steps"] += int64(last - first - inside)
	}
	return f
}

// A stepBuilder lays kernels one after the other.
type stepBuilder struct {
	chunk.Step
	clock *uint64
	what  map[string]int64
	order uint32
}

func (b *stepBuilder) kernel(what, call, op string, class chunk.Class, dur, wait uint64) {
	b.Shape.Positions = append(b.Shape.Positions, chunk.Position{Call: call, Op: op, Name: "_Z1kv", Class: class, Fused: class == chunk.Comm, Stream: 7, Launch: b.order})
	b.Shape.Hash = b.Shape.Hash*31 + uint64(len(call))
	b.Launches = append(b.Launches, chunk.Launch{Correlation: b.order})
	b.order++
	b.Starts, b.Durs = append(b.Starts, *b.clock), append(b.Durs, dur)
	*b.clock += dur
	if class == chunk.Compute {
		b.Compute += dur
	} else {
		b.Comm += dur
	}
	b.what[what] += int64(dur - wait)
	if what == "MoE" {
		b.what["waiting in MoE"] += int64(wait)
	}
}

func begin(seq int64, program string, seqs, tokens, kv int64, clock *uint64) *stepBuilder {
	vars := fmt.Sprintf("seqs=%d,tokens=%d", seqs, tokens)
	return &stepBuilder{clock: clock, what: map[string]int64{}, Step: chunk.Step{
		Seq: seq, Pairs: true, Text: fmt.Sprintf("step:%s seq=%d,%s,kv=%d", program, seq, vars, kv), Program: program, Vars: vars,
		Seqs: seqs, Tokens: tokens, KV: kv, Start: *clock, Complete: true, Shape: &chunk.Shape{},
	}}
}

// end closes a step of a rank, and notes what it had.
func (f *fourRanks) end(rank int, b *stepBuilder, context string) {
	b.End = *b.clock
	b.Idle = b.End - b.Start - b.Compute - b.Comm
	f.ranks[rank].Steps = append(f.ranks[rank].Steps, b.Step)
	for what, ns := range b.what {
		f.all[what] += ns
		if b.Program == "prefill" {
			f.prefill[what] += ns
		}
		if context != "" {
			key := [2]string{context, what}
			if f.contexts[key] == nil {
				f.contexts[key] = &average{}
			}
			f.contexts[key].steps++
			f.contexts[key].ns += ns
		}
	}
}

// forward is a prefill step on all ranks.
func (f *fourRanks) forward(seq, seqs, tokens int64, clocks *[4]uint64) {
	var b [4]*stepBuilder
	var contexts [4]string
	full := seqs == 1 && tokens == 32768
	for rank := range b {
		c := contextsOf[(int(seq)*7+rank*3)%4]
		if full {
			contexts[rank] = c.name
		}
		b[rank] = begin(seq, "prefill", seqs, tokens, c.kv, &clocks[rank])
	}
	for layer := range layers {
		call := func(form string) string { return fmt.Sprintf("prefill."+form, layer) }
		for rank, b := range b {
			if layer == 2 || layer == 8 {
				b.kernel("indexer", call("index%d.score"), "dsv41_index", chunk.Compute, uint64(4*b.KV), 0)
			}
			b.kernel("attention", call("target.attention.layers.%d.attention"), "dsv41_fused_attention", chunk.Compute, 900_000+uint64(17*rank), 0)
			b.kernel("attention projections", call("target.attention.layers.%d.wo_a"), "dsv41_dense", chunk.Compute, 300_000, 0)
			b.kernel("mHC", call("target.layers.%d.attn.mhc"), "dsv41_mhc", chunk.Compute, 40_000, 0)
			b.kernel("mHC", call("target.layers.%d.post"), "dsv41_hc_post", chunk.Compute, 10_000, 0)
			b.kernel("other", call("target.moe.layers.%d.gate"), "dsv41_dense", chunk.Compute, 60_000+uint64(100*((int(seq)+rank)%4)), 0)
			*b.clock += 1_000 // idle
		}
		f.experts(b, call("target.moe.layers.%d.experts"), layer, uint64(5_660_000+50_000*layer+1_000*int(seq)), full)
	}
	for rank := range b {
		f.end(rank, b[rank], contexts[rank])
	}
}

// experts is a kernel that no rank can do until all have come, and that then takes work, ns.
func (f *fourRanks) experts(b [4]*stepBuilder, call string, layer int, work uint64, full bool) {
	first, last, at := *b[0].clock, *b[0].clock, 0
	for rank, b := range b {
		first = min(first, *b.clock)
		if *b.clock > last {
			last, at = *b.clock, rank
		}
	}
	if full {
		f.work[layer] = append(f.work[layer], int64(work))
		f.waits[layer] = append(f.waits[layer], int64(last-first))
	}
	blame := int64(0)
	for rank, b := range b {
		wait := last - *b.clock
		blame += int64(wait)
		b.kernel("MoE", call, "dsv41_mega_moe_e384.0799aa8f", chunk.Comm, work+wait, wait)
		w := f.of(call, rank)
		w.times++
		w.wait += int64(wait)
		w.transfer += int64(work)
	}
	f.of(call, at).blame += blame
}

func (f *fourRanks) of(call string, rank int) *waited {
	key := fmt.Sprint(call, " ", rank)
	if f.byRank[key] == nil {
		f.byRank[key] = &waited{}
	}
	return f.byRank[key]
}

// decode is a step that none of the article's labels names.
func (f *fourRanks) decode(seq int64, clocks *[4]uint64) {
	for rank := range clocks {
		b := begin(seq, "decode_batch", 8, 8, 8*4096, &clocks[rank])
		b.kernel("other", "decode.target_head.sample", "argmax", chunk.Compute, 33_000, 0)
		f.end(rank, b, "")
	}
}

// total is the sum of all.
func (f *fourRanks) total(all map[string]int64) (sum int64) {
	for _, ns := range all {
		sum += ns
	}
	return sum
}
