package kernwaitsconnector

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/connector/connectortest"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/ledger"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/metadata"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/digest"
	"github.com/kernhes/kernhes/internal/sim/clock"
	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/fleet"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// A fleetOf is a simulated fleet of many ranks that decode, eight on a host, without sockets: its steps become digests as they are made.
type fleetOf struct {
	layout   program.Layout
	fleet    *fleet.Fleet
	program  *program.Program
	shape    *chunk.Shape
	rng      *rand.Rand
	builders []digest.Builder
	clocks   []clock.Clock
	seq      uint64
	want     []ledger.Sum
	last     []int64 // end of the step before, by rank
}

func newFleetOf(ranks int, faults ...string) *fleetOf {
	f := &fleetOf{layout: program.Layout{Name: "dp", Data: ranks, Tensor: 1, Stages: 1}, rng: rand.New(rand.NewPCG(1, 2)), want: make([]ledger.Sum, ranks), last: make([]int64, ranks)}
	f.fleet = fleet.New(f.layout, 1, epoch.UnixNano())
	for _, text := range faults {
		e, err := fault.Parse(text)
		if err != nil {
			panic(err)
		}
		f.fleet.Schedule = append(f.fleet.Schedule, e)
	}
	f.program = program.Flash(f.layout, 0, "decode_batch")
	f.shape = &chunk.Shape{}
	for i, k := range f.program.Kernels {
		p := chunk.Position{Call: k.Call, Op: k.Op, Name: k.Name, Class: chunk.Compute, Grid: k.Grid, Block: k.Block, Node: uint32(i)}
		if k.Meets != program.None {
			p.Class, p.Group, p.GroupBy = chunk.Comm, "ep:0", chunk.GroupSetting
		}
		f.shape.Positions = append(f.shape.Positions, p)
	}
	shapes := digest.NewShapes()
	for r := range ranks {
		f.builders = append(f.builders, digest.Builder{Shapes: shapes})
		f.clocks = append(f.clocks, clock.New(1, r))
	}
	return f
}

// records are the digests of so many steps, a record a rank, as an agent sends them each second.
func (f *fleetOf) records(steps int) [][]byte {
	all := make([]digest.Record, len(f.builders))
	for range steps {
		jobs := make([]fleet.Job, len(f.builders))
		for r := range jobs {
			jobs[r] = fleet.Job{Rank: r, Program: f.program, Batch: program.Batch{Program: "decode_batch", Seqs: 8, Tokens: 8, KV: 30_000 + f.rng.IntN(2000)}, After: f.fleet.Ready()}
		}
		done, meetings := f.fleet.Run(f.seq, jobs)
		for r, s := range done {
			if d := f.builders[r].Add(f.packed(r, s)); d != nil {
				all[r].Steps = append(all[r].Steps, d)
			}
		}
		f.seq++
		for _, m := range meetings {
			by := m.Last
			for i, rank := range m.Ranks {
				if m.Wait(i) == 0 {
					by = min(by, rank)
				}
			}
			for i, rank := range m.Ranks {
				f.want[rank].Wait[0] += uint64(m.Wait(i))
				f.want[by].Blame[0] += uint64(m.Wait(i))
				f.want[rank].Transfer += uint64(m.Leave - m.Arrived)
			}
		}
	}
	var bodies [][]byte
	for r := range all {
		all[r].Identity = chunk.Identity{Run: "run", Rank: int64(r), Host: fmt.Sprint("host", r/8), Session: uint64(r)}
		all[r].Sums = f.builders[r].TakeSums()
		bodies = append(bodies, digest.Append(nil, &all[r]))
	}
	return bodies
}

// packed is a step as a chunk has it.
func (f *fleetOf) packed(rank int, from *fleet.Step) *chunk.Step {
	offset := f.clocks[rank].Offset(from.Push)
	s := &chunk.Step{Seq: int64(from.Seq), Pairs: true, Complete: true, Program: from.Program.Name, Seqs: int64(from.Batch.Seqs), Tokens: int64(from.Batch.Tokens),
		KV: int64(from.Batch.KV), Shape: f.shape, Launches: []chunk.Launch{{Graph: 1}}, Kernels: len(from.Spans), Last: true,
		Start: uint64(from.Start() + offset), End: uint64(from.End() + offset)}
	for i := range from.Spans {
		span := &from.Spans[i]
		s.Starts, s.Durs = append(s.Starts, uint64(span.Start+offset)), append(s.Durs, uint64(span.End-span.Start))
		if span.Kernel.Meets == program.None {
			s.Compute += uint64(span.End - span.Start)
		}
	}
	for _, g := range from.Foreign {
		s.Foreign += uint64(g.End - g.Start)
	}
	return s
}

// A gateway is a comparison that takes digests, with what they took.
type gateway struct {
	*comparison
	bytes, steps int
	took         time.Duration
}

func newGateway() *gateway {
	return &gateway{comparison: newComparison(createDefaultConfig().(*Config))}
}

// take takes records that came at a time.
func (g *gateway) take(t testing.TB, bodies [][]byte, now time.Time) {
	began := cpu()
	for _, body := range bodies {
		r, err := digest.Decode(body, g.shapes)
		require.NoError(t, err)
		g.bytes, g.steps = g.bytes+len(body), g.steps+len(r.Steps)
		g.comparison.digest(r, now)
	}
	g.tick(now)
	g.took += cpu() - began
}

// cpu is the CPU time of this process: others may have the cores meanwhile.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Of 64 ranks on eight hosts, one of which is slow, the waits are the truth, and the slow rank has nearly all blame. Memory is what
// one second of steps takes.
func TestSixtyFourRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing runs in parallel here")
	}
	f := newFleetOf(64, "slow_clocks:rank=37,amount=15")
	g := newGateway()
	for second := range 6 {
		g.take(t, f.records(5), epoch.Add(time.Duration(second)*time.Second))
	}
	steps, _ := g.pairing.Pending()
	require.Zero(t, steps, "all ranks are known, and there")
	run := g.only(t)
	var blame, of37 uint64
	for rank := range int64(64) {
		got := totals(run, rank)
		require.Equal(t, all(f.want[rank].Wait), all(got.Wait), "rank %d", rank)
		require.Equal(t, all(f.want[rank].Blame), all(got.Blame), "rank %d", rank)
		require.Equal(t, f.want[rank].Transfer, got.Transfer, "rank %d", rank)
		blame += all(got.Blame)
		if rank == 37 {
			of37 = got.Blame[1]
		}
	}
	require.Greater(t, of37, blame*9/10)
	require.Less(t, g.bytes/g.steps, 3000)
}

// BenchmarkGateway is what a gateway takes for a step of a rank: docs/waits.md has its table.
func BenchmarkGateway(b *testing.B) {
	for _, ranks := range []int{8, 64, 1024} {
		b.Run(fmt.Sprint(ranks), func(b *testing.B) {
			f := newFleetOf(ranks, fmt.Sprintf("slow_clocks:rank=%d,amount=15", ranks/2))
			c := newConnector(connectortest.NewNopSettings(metadata.Type), createDefaultConfig().(*Config), nil)
			g := &gateway{comparison: c.comparison}
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for n := range 4 {
				g.take(b, f.records(8), epoch.Add(time.Duration(n)*time.Second))
			}
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				bodies := f.records(8)
				b.StartTimer()
				g.take(b, bodies, epoch.Add(time.Duration(4+n)*time.Second))
			}
			f.builders, f.fleet = nil, nil
			runtime.GC()
			runtime.ReadMemStats(&after)
			steps, _ := g.pairing.Pending()
			require.Zero(b, steps)
			began := time.Now()
			series := c.metrics(epoch).DataPointCount()
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/export")
			b.ReportMetric(float64(g.took.Nanoseconds())/float64(g.steps), "cpu-ns/step")
			b.ReportMetric(float64(g.bytes)/float64(g.steps), "B/step")
			b.ReportMetric(float64(series), "series")
			b.ReportMetric(float64(after.HeapInuse-min(before.HeapInuse, after.HeapInuse))/(1<<20), "MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}
