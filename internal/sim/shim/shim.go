// Package shim tells over the wire what one simulated rank does, as its shim would.
package shim

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/kernhes/kernhes/internal/sender"
	"github.com/kernhes/kernhes/internal/sim/fleet"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// Settings are what all shims of a run share.
type Settings struct {
	Run       string
	Anonymous bool // HELLO has neither the run nor the rank
	Host      string
	Layout    program.Layout
	Seed      uint64
	Start     int64         // unix ns
	Flush     time.Duration // between flushes
	Disorder  uint64        // seed: records come up to a second late, shuffled; 0: they do not
	Untraced  bool          // ranges only
}

// Threads of an engine, and its streams.
const (
	engine     = 1
	side       = 2
	mainStream = 7
	sideStream = 8
	foreignOn  = 9
	copyOn     = 10
)

// A Shim tells of one rank. It is not safe for concurrent use.
type Shim struct {
	Wire    *sender.Sender
	Session uint64
	Ended   bool
	Losses  func() []sender.Loss // what was lost on the way since the last call; nil: nothing is

	set         *Settings
	rank        int
	traced      bool
	flushed     int64 // of the last flush
	late        int64 // the latest end of a kernel
	correlation uint32
	graphs      map[string]uint64 // id of the executable graph, by program
	nodes       uint32            // graphs so far
	kernels     []kernel          // that wait for a flush
	copies      []sender.Copy
	foreign     []launch // that wait for their time
	rng         *rand.Rand
	lose        int // kernels that CUPTI drops at the next flush
	dropped     int
}

// A kernel is a record on its way.
type kernel struct {
	sender.Kernel
	due int64
}

// A launch is one outside any step.
type launch struct {
	at     int64
	record sender.Kernel
}

// New tells of a rank from its start on. Each frame is given to emit.
func New(set *Settings, rank int, session uint64, emit func(number uint64, frame []byte)) *Shim {
	h := &Shim{Wire: sender.New(emit), Session: session, set: set, rank: rank, traced: !set.Untraced, flushed: set.Start, graphs: map[string]uint64{}}
	h.Wire.Pin()
	if set.Disorder != 0 {
		h.rng = rand.New(rand.NewPCG(set.Disorder, uint64(rank)))
	}
	h.Wire.Now, h.Wire.Monotonic = uint64(set.Start), -uint64(set.Start)+1e12
	h.Wire.Hello(session, h.hello()...)
	h.Wire.Base()
	h.Wire.Clock(uint64(set.Start), uint64(set.Start)+40, uint64(set.Start)+90, 1e12)
	h.communicators()
	return h
}

// Hello is the session's HELLO, as a frame of its own.
func (h *Shim) Hello() (frame []byte) {
	sender.New(func(_ uint64, f []byte) { frame = f }).Hello(h.Session, h.hello()...)
	return frame
}

func (h *Shim) hello() []string {
	mode, reason := "hes", "simulated"
	if h.set.Untraced {
		mode, reason = "off", "simulated with ranges only"
	}
	var pairs []string
	if !h.set.Anonymous {
		pairs = []string{"run", h.set.Run, "rank", strconv.Itoa(h.rank)}
	}
	return append(pairs, "host", h.set.Host, "engine", "kernhes-sim", "engine_version", "1",
		"model", "DSv4.1-Flash-simulated", "pid", strconv.Itoa(10_000+h.rank), "process_start", strconv.FormatInt(h.set.Start, 10),
		"mode", mode, "mode_reason", reason, "subscribed", "1", "cupti_version", "130401", "driver_version", "13040",
		"gpu.0.uuid", fmt.Sprintf("GPU-%08x-0000-0000-0000-%012x", uint32(h.set.Seed), h.rank), "gpu.0.name", "NVIDIA GB300", "shim_version", "sim")
}

// Text is a step's range.
func Text(s *fleet.Step) string {
	return fmt.Sprintf("step:%s seq=%d,seqs=%d,tokens=%d,kv=%d", s.Program.Name, s.Seq, s.Batch.Seqs, s.Batch.Tokens, s.Batch.KV)
}

// Trace turns tracing on or off between two steps.
func (h *Shim) Trace(on bool, now int64) {
	if on == h.traced || h.set.Untraced {
		return
	}
	h.until(now)
	if !on {
		h.deliver(max(now, h.late))
	}
	h.traced = on
	h.Wire.Info("mode", map[bool]string{true: "hes", false: "off"}[on])
}

// Lose has CUPTI drop so many of the kernels that the next flush would give.
func (h *Shim) Lose(n int) { h.lose += n }

// Lost is how many records were dropped since the last call.
func (h *Shim) Lost() int {
	n := h.dropped
	h.dropped = 0
	return n
}

// Step tells of a step; offset is what the GPU's clock adds to true times.
func (h *Shim) Step(s *fleet.Step, offset int64) {
	graph, captured := uint64(0), false
	if h.traced && s.Program.Graph {
		key := fmt.Sprintf("%s/%d/%d", s.Program.Name, program.Bucket(s.Batch.Seqs), len(s.Program.Kernels))
		if graph, captured = h.graphs[key]; !captured {
			graph = h.capture(s.Program)
			h.graphs[key] = graph
		}
	}
	if h.traced {
		for _, f := range s.Foreign {
			h.foreign = append(h.foreign, launch{f.Start - 8000, h.record(f, offset, 0, "nvjet_sm100_tst_256x128_64x4_2x1_v_bz_NNT", foreignOn, nil)})
		}
	}
	h.to(s.Push)
	h.Wire.Once(engine, 0, 1, Text(s))
	if h.traced {
		h.copied(s, offset)
		if s.Program.Graph {
			h.replay(s, offset, graph)
		} else {
			h.eager(s, offset)
		}
	}
	h.to(s.Pop)
	h.Wire.Pop(engine, 0, 0)
	h.until(s.Pop)
}

// replay launches the graph of a step.
func (h *Shim) replay(s *fleet.Step, offset int64, graph uint64) {
	h.to(s.Launches[0])
	c := h.launch(engine, true)
	for _, span := range s.Spans {
		h.add(span, h.record(span, offset, c, span.Kernel.Name, streamOf(span.Kernel), &graph))
	}
}

// eager launches the kernels of a step one by one, each within its call's range.
func (h *Shim) eager(s *fleet.Step, offset int64) {
	for _, span := range s.Spans {
		k := span.Kernel
		h.to(s.Launches[span.Index])
		h.Wire.Push(engine, 0, 2, k.Call)
		h.collective(engine, k, s.Batch.Tokens, func() {
			c := h.launch(engine, false)
			h.add(span, h.record(span, offset, c, k.Name, streamOf(k), nil))
		})
		h.Wire.Pop(engine, 0, 1)
	}
}

func streamOf(k *program.Kernel) uint32 {
	if k.Side {
		return sideStream
	}
	return mainStream
}

// capture makes the executable graph of a program.
func (h *Shim) capture(p *program.Program) (graph uint64) {
	h.Wire.Cut()
	original := uint64(2*h.nodes + 1)
	h.nodes++
	graph = original + 1
	for i := range p.Kernels {
		k := &p.Kernels[i]
		h.Wire.Push(engine, 0, 1, k.Call)
		h.collective(engine, k, 1, func() {
			c := h.launch(engine, false)
			h.Wire.NodeCreated(engine, original<<32|uint64(i), true, 0)
			h.Wire.Captured(engine, c)
		})
		h.Wire.Pop(engine, 0, 0)
	}
	for i := range p.Kernels {
		h.Wire.NodeCloned(original<<32|uint64(i), graph<<32|uint64(i))
		h.Wire.PinNode(graph<<32|uint64(i), p.Kernels[i].Call)
	}
	h.Wire.Cut()
	return graph
}

func (h *Shim) launch(thread uint32, graph bool) uint32 {
	h.correlation++
	h.Wire.Launch(thread, h.correlation, graph)
	h.Wire.Launched(h.correlation)
	return h.correlation
}

// record is the record of a span.
func (h *Shim) record(s fleet.Span, offset int64, correlation uint32, name string, stream uint32, graph *uint64) sender.Kernel {
	k := sender.Kernel{
		Start: uint64(s.Start + offset), End: uint64(s.End + offset), Correlation: correlation, Name: h.Wire.ID(name), Stream: stream, Registers: 128,
		Grid: [3]uint32{132, 1, 1}, Block: [3]uint32{128, 1, 1}, Context: 1,
	}
	if s.Kernel != nil {
		k.Grid, k.Block = s.Kernel.Grid, s.Kernel.Block
	}
	if graph != nil {
		k.Node = *graph<<32 | uint64(s.Index)
	}
	return k
}
