package truth

import (
	"testing"

	"github.com/kernhes/kernhes/internal/sim/fleet"
	"github.com/kernhes/kernhes/internal/sim/program"
)

var (
	compute = &program.Kernel{}
	comm    = &program.Kernel{Meets: program.Experts}
)

// Two steps on one GPU, with everything in them that a sum can get wrong. By hand, times in ticks
// of 32 ns after 1,000:
//
//	step 1: compute 0–10, comm 12–22, compute beside it 14–18, compute 24–26. A foreign kernel 25–40.
//	step 2: its copy 38–44, compute 50–60, comm 58–70.
func TestSums(t *testing.T) {
	at := func(n int64) int64 { return (1000 + n) * 32 }
	span := func(k *program.Kernel, from, to int64) fleet.Span {
		return fleet.Span{Kernel: k, Start: at(from), End: at(to)}
	}
	p := &program.Program{Name: "decode_batch"}
	one := &fleet.Step{Job: fleet.Job{Program: p}, Seq: 1, Copy: span(nil, -9, -3),
		Spans:   []fleet.Span{span(compute, 0, 10), span(compute, 14, 18), span(comm, 12, 22), span(compute, 24, 26)},
		Foreign: []fleet.Span{span(nil, 25, 40)}}
	two := &fleet.Step{Job: fleet.Job{Program: p}, Seq: 2, Copy: span(nil, 38, 44), Spans: []fleet.Span{span(compute, 50, 60), span(comm, 58, 70)}}
	var r Rank
	const offset = 64
	check := func(what string, got, ticks int64) {
		t.Helper()
		if got != ticks*32 {
			t.Errorf("%s is %d ns, want %d ticks of 32", what, got, ticks)
		}
	}
	a, b := r.Step(one, offset, true), r.Step(two, offset, true)
	check("start", a.Start, 1002)
	check("end", a.End, 1028)
	check("compute of 1", a.Compute, 10+4+2)
	check("comm of 1", a.Comm, 2+4)
	check("overlap of 1", a.Overlap, 4)
	check("idle of 1", a.Idle, 2+2)
	check("foreign of 1: the first", a.Foreign, 0)
	check("foreign of 2: from the end of 1", b.Foreign, 40-26)
	check("compute of 2", b.Compute, 10)
	check("comm of 2", b.Comm, 10)
	l := r.Close()
	check("first", l.First, 1002)
	check("last", l.Last, 1072)
	check("compute", l.Compute, 10+4+(40-24)+10)
	check("comm", l.Comm, 2+4+10)
	check("overlap", l.Overlap, 4+2)
	check("copy: not the one before the first kernel, and of the other what no kernel covers", l.Copy, 44-40)
	check("idle", l.Idle, 70-(10+4+16+10)-(2+4+10))
	if l.Kernels != 7 || l.Copies != 2 || l.Steps != 2 {
		t.Errorf("%+v", l)
	}
	if c := r.Step(two, offset, false); c.Traced || c.Kernels != 0 || r.Close().Kernels != 7 {
		t.Errorf("a step that is not traced counts: %+v", c)
	}
}
