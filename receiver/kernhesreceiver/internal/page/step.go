package page

import (
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kernhes/kernhes/internal/perfetto"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/history"
)

// A timeline is what step.html shows: a step on each rank that kept it.
type timeline struct {
	Run   string
	Seq   uint64
	Trace string // where its Perfetto trace is
	Wall  uint64 // of the longest, ns
	Ranks []timelineRank
}

type timelineRank struct {
	*history.Step
	Rows   int           // streams
	Height int           // px
	Lines  template.HTML // the kernels, a row a stream; 1000 units wide
	Calls  []callTime    // longest first
}

type callTime struct {
	Call    string
	Comm    bool
	NS      uint64
	Kernels int
}

// maxRows is how many streams are drawn; others share the last row.
const maxRows = 8

func newTimeline(steps []*history.Step) timeline {
	t := timeline{Run: steps[0].Run, Seq: steps[0].Seq}
	query := url.Values{"run": {t.Run}, "seq": {strconv.FormatUint(t.Seq, 10)}}.Encode()
	t.Trace = "step.pftrace?" + query
	for _, s := range steps {
		t.Wall = max(t.Wall, s.Wall())
	}
	for _, s := range steps {
		r := timelineRank{Step: s}
		r.Lines, r.Rows = lines(s, max(t.Wall, 1))
		r.Height = 18 * r.Rows
		r.Calls = callTimes(s.Detail)
		t.Ranks = append(t.Ranks, r)
	}
	return t
}

// lines draws kernels as bars from the step's start. Kernels that would be one bar on the screen are one.
func lines(s *history.Step, wall uint64) (template.HTML, int) {
	rows := map[uint32]int{}
	type bar struct {
		comm       bool
		from, to   float64
		text       string
		ns, number uint64
	}
	var bars [maxRows][]bar
	for i := range s.Detail {
		k := &s.Detail[i]
		row, ok := rows[k.Stream]
		if !ok {
			row = min(len(rows), maxRows-1)
			rows[k.Stream] = row
		}
		from := 1000 * float64(k.Start-min(k.Start, s.Start)) / float64(wall)
		to := from + 1000*float64(k.Dur)/float64(wall)
		text := k.Call
		if text == "" {
			text = k.Name
		}
		if n := len(bars[row]); n > 0 {
			if last := &bars[row][n-1]; last.comm == k.Comm && (last.text == text || to-last.from < 0.5) && from-last.to < 0.5 && from >= last.from {
				last.to, last.ns, last.number = max(last.to, to), last.ns+k.Dur, last.number+1
				continue
			}
		}
		bars[row] = append(bars[row], bar{k.Comm, from, to, text, k.Dur, 1})
	}
	var b strings.Builder
	for row := range min(len(rows), maxRows) {
		for _, one := range bars[row] {
			class := "compute"
			if one.comm {
				class = "comm"
			}
			fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="%d" width="%.2f" height="14"><title>%s: %s, %d kernels</title></rect>`,
				class, one.from, 18*row+2, max(one.to-one.from, 0.4), template.HTMLEscapeString(clean(one.text)), duration(float64(one.ns)/1e9), one.number)
		}
	}
	return template.HTML(b.String()), max(1, min(len(rows), maxRows)) // texts are escaped
}

// maxCallTimes is how many calls of a step are listed.
const maxCallTimes = 20

func callTimes(kernels []history.Kernel) []callTime {
	sums := map[string]*callTime{}
	var calls []*callTime
	for i := range kernels {
		k := &kernels[i]
		c := sums[k.Call]
		if c == nil {
			c = &callTime{Call: k.Call, Comm: k.Comm}
			sums[k.Call] = c
			calls = append(calls, c)
		}
		c.NS += k.Dur
		c.Kernels++
	}
	slices.SortStableFunc(calls, func(a, b *callTime) int { return int(b.NS>>1) - int(a.NS>>1) })
	var list []callTime
	for _, c := range calls[:min(len(calls), maxCallTimes)] {
		list = append(list, *c)
	}
	return list
}

// trace writes the step as Perfetto reads it.
func trace(w io.Writer, steps []*history.Step) error {
	return perfetto.Write(w, perfettoStep(steps))
}

func perfettoStep(steps []*history.Step) *perfetto.Step {
	p := &perfetto.Step{Run: steps[0].Run, Seq: steps[0].Seq}
	for _, s := range steps {
		r := perfetto.Rank{Rank: s.Rank, Program: s.Program, Vars: s.Text, Start: s.Start, End: s.End, Foreign: s.Foreign}
		for _, k := range s.Detail {
			class := "compute"
			if k.Comm {
				class = "comm"
			}
			r.Kernels = append(r.Kernels, perfetto.Kernel{Start: k.Start, End: k.Start + k.Dur, Stream: uint64(k.Stream), Name: k.Name, Call: k.Call, Class: class})
		}
		p.Ranks = append(p.Ranks, r)
	}
	return p
}
