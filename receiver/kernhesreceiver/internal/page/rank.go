package page

import (
	"net/url"
	"strconv"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/history"
)

// A rankPage is what rank.html shows: the newest steps of a rank, newest first.
type rankPage struct {
	history.Key
	Longest uint64 // wall time of the longest step, ns
	Steps   []rankStep
}

type rankStep struct {
	history.Step
	Href                        string  // of its timeline; empty: its kernels are not kept
	Compute, Comm, Idle, Offset float64 // percent of the longest step's wall time
}

func newRank(k history.Key, steps []history.Step, kept map[uint64]bool) rankPage {
	p := rankPage{Key: k}
	for i := range steps {
		p.Longest = max(p.Longest, steps[i].Wall())
	}
	for i := len(steps) - 1; i >= 0; i-- {
		s := rankStep{Step: steps[i]}
		if p.Longest > 0 {
			part := func(ns uint64) float64 { return 100 * float64(ns) / float64(p.Longest) }
			s.Compute, s.Comm, s.Idle = part(s.Step.Compute), part(s.Step.Comm), part(s.Step.Idle)
		}
		if kept[s.Seq] {
			s.Href = "step?" + url.Values{"run": {k.Run}, "seq": {strconv.FormatUint(s.Seq, 10)}}.Encode()
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}
