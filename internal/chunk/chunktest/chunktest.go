// Package chunktest makes steps to pack of recordings, slowly and plainly, by the oracle. It shares nothing with the receiver.
package chunktest

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/oracle"
)

// A Rank is what one device of a recorded process did.
type Rank struct {
	chunk.Identity
	Steps  []chunk.Step // in order of their ranges' push, then what is outside any
	Copies []chunk.Copy
	Want   *oracle.Figures
}

// a kernel is one record and what the oracle says of it.
type kernel struct {
	krec.Record
	*oracle.Kernel
	launch uint32
}

// Ranks are the devices of a recorded process; outside any step goes what the oracle finds there, in runs of 4,096. The
// first device has rank, the next rank + 1 and so on.
func Ranks(r *krec.Recording, run string, rank int64) []Rank {
	work := oracle.Do(r, oracle.Collective)
	var ranks []Rank
	for i, figures := range work.Devices {
		id := chunk.Identity{Run: run, Rank: rank + int64(i), Device: uint16(figures.Device), Session: uint64(r.Meta().Info.PID),
			Host: "host", GPU: fmt.Sprintf("GPU-%d", figures.Device), GPUName: "NVIDIA H200", Engine: "torch", Version: "2.11", Mode: "software"}
		ranks = append(ranks, rankOf(r, work, figures, id))
	}
	return ranks
}

func rankOf(r *krec.Recording, work *oracle.Work, figures *oracle.Figures, id chunk.Identity) Rank {
	out := Rank{Identity: id, Want: figures}
	byStep := map[int][]kernel{}
	n := 0
	for _, f := range r.Frames {
		raw, ok := f.(*krec.Raw)
		if !ok {
			continue
		}
		for _, record := range raw.Records {
			if record.Kind() != krec.KindKernel {
				if record.Device() == figures.Device {
					out.Copies = append(out.Copies, copied(record))
				}
				continue
			}
			k := kernel{Record: record, Kernel: &work.Kernels[n]}
			n++
			if k.Kernel.Device == figures.Device && !k.Invalid {
				byStep[k.Step] = append(byStep[k.Step], k)
			}
		}
	}
	shapes := map[uint64]*chunk.Shape{}
	for _, row := range figures.Steps {
		s := parse(row.Text)
		s.Start, s.End = uint64(row.First), uint64(row.Last)
		s.Compute, s.Comm, s.Overlap, s.Foreign = uint64(row.Compute), uint64(row.Comm), uint64(row.Overlap), uint64(row.Foreign)
		s.Idle = uint64(row.Wall - row.Compute - row.Comm)
		s.Complete, s.Pairs = row.Complete, true
		if !s.Complete {
			s.Reason = "missing_records"
		}
		columns(&s, byStep[row.Order], shapes)
		out.Steps = append(out.Steps, s)
	}
	for some := range slices.Chunk(byStep[-1], 4096) {
		s := chunk.Step{Outside: true, Start: some[0].Record.Start()}
		for _, k := range some {
			s.Start = min(s.Start, k.Record.Start())
			s.End = max(s.End, k.Record.End())
		}
		columns(&s, some, shapes)
		out.Steps = append(out.Steps, s)
	}
	return out
}

// columns puts kernels in order of launch and node, and makes shape and columns of them.
func columns(s *chunk.Step, kernels []kernel, shapes map[uint64]*chunk.Shape) {
	ordinals := map[uint32]uint32{}
	for i := range kernels {
		c := kernels[i].Correlation()
		if _, ok := ordinals[c]; !ok {
			ordinals[c] = uint32(len(ordinals))
		}
		kernels[i].launch = ordinals[c]
	}
	slices.SortStableFunc(kernels, func(a, b kernel) int {
		return cmp.Or(cmp.Compare(a.launch, b.launch), cmp.Compare(a.Node(), b.Node()))
	})
	positions := make([]chunk.Position, len(kernels))
	hash := fnv.New64a()
	for i, k := range kernels {
		positions[i] = chunk.Position{
			Call: k.Call, Op: opOf(k.Call), Name: k.Kernel.Name, Class: chunk.Compute, Stream: k.Record.Stream(),
			Grid: k.Grid(), Block: k.Block(), Launch: k.launch, Node: uint32(k.Node()),
		}
		if k.Comm {
			positions[i].Class = chunk.Comm
		}
		fmt.Fprintf(hash, "%+v\n", positions[i])
		if i == 0 || k.launch != kernels[i-1].launch {
			s.Launches = append(s.Launches, chunk.Launch{Correlation: k.Correlation(), Graph: uint32(k.Node() >> 32)})
		}
		s.Starts = append(s.Starts, k.Record.Start())
		s.Durs = append(s.Durs, k.Record.End()-k.Record.Start())
	}
	sum := hash.Sum64()
	if shapes[sum] == nil {
		shapes[sum] = &chunk.Shape{Hash: sum, Positions: positions}
	}
	s.Shape = shapes[sum]
}

// opOf makes an op of a call, as a manifest would give it: its last word.
func opOf(call string) string { return call[strings.LastIndexByte(call, '.')+1:] }

// parse reads the text of a recording's step: step:PROGRAM k=v,…
func parse(text string) chunk.Step {
	s := chunk.Step{Text: text}
	program, rest, _ := strings.Cut(strings.TrimPrefix(text, "step:"), " ")
	s.Program = program
	vars := map[string]string{}
	for pair := range strings.SplitSeq(rest, ",") {
		k, v, _ := strings.Cut(pair, "=")
		n, _ := strconv.ParseInt(v, 10, 64)
		switch k {
		case "seq":
			s.Seq = n
			continue
		case "kv":
			s.KV = n
			continue
		case "seqs":
			s.Seqs = n
		case "tokens":
			s.Tokens = n
		}
		vars[k] = v
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		all = append(all, k+"="+vars[k])
	}
	s.Vars = strings.Join(all, ",")
	return s
}

func copied(r krec.Record) chunk.Copy {
	return chunk.Copy{Start: r.Start(), Dur: r.End() - r.Start(), Bytes: r.Bytes(), Node: r.Node(), Correlation: r.Correlation(),
		Stream: r.Stream(), Memset: r.Kind() == krec.KindMemset, Kind: r.CopyKind()}
}
