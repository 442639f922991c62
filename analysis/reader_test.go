package duckdb_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/kernhes/kernhes/internal/krec"
)

// A ran is one kernel of a recording: when it ran, in which step and call it was launched.
type ran struct {
	start, end int64
	step       string // text of its range; empty: none
}

// kernelsOf reads a recording plainly: a stack of ranges a thread, and for each launch the step that is open. It shares
// nothing with the receiver, the oracle, or the queries.
func kernelsOf(t testing.TB, r *krec.Recording) (kernels []ran) {
	t.Helper()
	open := map[uint32][]string{}
	launched := map[uint32]string{}
	for _, f := range r.Frames {
		switch f := f.(type) {
		case *krec.Push:
			if f.Domain == 0 {
				open[f.Thread] = append(open[f.Thread], f.Text)
			}
		case *krec.Pop:
			if n := len(open[f.Thread]); f.Domain == 0 && n > 0 {
				open[f.Thread] = open[f.Thread][:n-1]
			}
		case *krec.Launch:
			launched[f.Correlation] = ""
			for _, text := range open[f.Thread] {
				if strings.HasPrefix(text, "step:") {
					launched[f.Correlation] = text
				}
			}
		case *krec.Raw:
			for _, k := range f.Records {
				if k.Kind() == krec.KindKernel {
					kernels = append(kernels, ran{int64(k.Start()), int64(k.End()), launched[k.Correlation()]})
				}
			}
		}
	}
	slices.SortFunc(kernels, func(a, b ran) int { return cmp.Compare(a.start, b.start) })
	return kernels
}

// A hole is time in which no kernel runs.
type hole struct{ from, to int64 }

// holes sweeps over kernels in order of their starts: what lies between them from a time to another.
func holes(kernels []ran, from, to int64) (all []hole) {
	until := from
	for _, k := range kernels {
		if k.start > until && k.start <= to {
			all = append(all, hole{until, k.start})
		}
		until = max(until, k.end)
	}
	return all
}

// stepsOf are the first start and the last end of kernels of steps.
func stepsOf(kernels []ran) (from, to int64) {
	for _, k := range kernels {
		if k.step != "" {
			if from == 0 || k.start < from {
				from = k.start
			}
			to = max(to, k.end)
		}
	}
	return from, to
}

func sum(all []hole) (n int64) {
	for _, h := range all {
		n += h.to - h.from
	}
	return n
}
