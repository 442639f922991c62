package page

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/history"
)

// A live is what live.html shows.
type live struct {
	history.View
	Runs []liveRun
}

type liveRun struct {
	history.RunView
	Height int // of a strip, px
	Ranks  []liveRank
}

type liveRank struct {
	history.RankView
	Href  string
	Strip template.HTML
	Label string // of the strip, for people who cannot see it
}

// maxBins is how many bins a strip is drawn with where there are many ranks: the page stays small.
const maxBins = 90

func newLive(v history.View) live {
	l := live{View: v}
	for _, r := range v.Runs {
		run := liveRun{RunView: r, Height: 26}
		step := 1
		switch n := len(r.Ranks); {
		case n > 32:
			run.Height, step = 10, history.Bins/maxBins
		case n > 8:
			run.Height, step = 16, history.Bins/maxBins
		}
		for _, k := range r.Ranks {
			run.Ranks = append(run.Ranks, liveRank{
				RankView: k,
				Href:     "rank?" + url.Values{"run": {r.Name}, "rank": {strconv.FormatInt(k.Rank, 10)}}.Encode(),
				Strip:    strip(k.Strip, step),
				Label:    label(k.Last),
			})
		}
		l.Runs = append(l.Runs, run)
	}
	return l
}

// label says shares in words, and how much of the time was traced unless all was.
func label(s history.Share) string {
	text := fmt.Sprintf("last minute: compute %.0f%%, communication %.0f%%, idle %.0f%%, unknown %.0f%%", 100*s.Compute, 100*s.Comm, 100*s.Idle, 100*s.Unknown)
	if s.Traced < 0.9995 {
		text += fmt.Sprintf(" of the %.1f%% of the time that were traced", 100*s.Traced)
	}
	return text
}

// strip draws shares over time as four stacked areas: a unit a bin wide, 100 high. Bins without data stay empty.
func strip(bins []history.Share, step int) template.HTML {
	var areas [4]strings.Builder
	for i := 0; i+step <= len(bins); i += step {
		s := mean(bins[i : i+step])
		top := 100.0
		for j, part := range []float64{s.Compute, s.Comm, s.Idle, s.Unknown} {
			if part <= 0 {
				continue
			}
			// Each bin is a rectangle: from its left edge down by its part.
			fmt.Fprintf(&areas[j], "M%d %.0fh%dv%.0fh-%dz", i, top-100*part, step, 100*part, step)
			top -= 100 * part
		}
	}
	var b strings.Builder
	for j, class := range []string{"compute", "comm", "idle", "unknown"} {
		if areas[j].Len() > 0 {
			fmt.Fprintf(&b, `<path class="%s" d="%s"/>`, class, areas[j].String())
		}
	}
	return template.HTML(b.String()) // of our own numbers and words alone
}

// mean of the bins that have data.
func mean(bins []history.Share) (m history.Share) {
	n := 0.0
	for _, s := range bins {
		if s == (history.Share{}) {
			continue
		}
		n++
		m.Compute += s.Compute
		m.Comm += s.Comm
		m.Idle += s.Idle
		m.Unknown += s.Unknown
		m.Traced += s.Traced
	}
	if n == 0 {
		return m
	}
	return history.Share{Compute: m.Compute / n, Comm: m.Comm / n, Idle: m.Idle / n, Unknown: m.Unknown / n, Traced: m.Traced / n}
}
