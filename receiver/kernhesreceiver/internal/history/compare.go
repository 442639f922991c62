package history

import (
	"fmt"
	"slices"
	"time"
)

// What makes a verdict. dashboards/rules/alerts.yaml has the same numbers.
const (
	slowRatio     = 1.15 // compute over that of the fastest rank, for equal steps
	foreignShare  = 0.01 // of time, above the median rank
	unknownShare  = 0.05
	costShare     = 0.05
	waitedShare   = 0.10             // of the time of each rank, on average, that the others wait for one that is at fault
	waitedTimes   = 3                // what others wait for it, over the median rank
	promptly      = 15 * time.Second // over which foreign compute is averaged: without other work it is the same on all ranks
	comparedSteps = 5                // a minute, for a rank to count as the speed of a set
)

// A Ratio is the compute of a rank over that of the fastest rank for equal steps; 0: not known.
type Ratio struct{ Own, All float64 } // of its steps; with foreign compute

// ratios compares the ranks over the last minute.
func (r *run) ratios(now time.Time) map[int64]Ratio {
	fastest := map[Set]float64{} // ns of compute a step
	minutes := map[int64]map[Set]Sums{}
	foreign := map[int64]float64{}
	for n, k := range r.ranks {
		d, seconds, sets := k.minute(now)
		if seconds == 0 {
			continue
		}
		minutes[n], foreign[n] = sets, float64(d.Foreign)
		for set, s := range sets {
			if float64(s.Steps) < comparedSteps*seconds/60 {
				continue
			}
			mean := float64(s.Compute) / float64(s.Steps)
			if f, ok := fastest[set]; !ok || mean < f {
				fastest[set] = mean
			}
		}
	}
	ratios := map[int64]Ratio{}
	for n, sets := range minutes {
		var own, best float64
		for set, s := range sets {
			if f, ok := fastest[set]; ok {
				own += float64(s.Compute)
				best += f * float64(s.Steps)
			}
		}
		if best > 0 {
			ratios[n] = Ratio{own / best, (own + foreign[n]) / best}
		}
	}
	return ratios
}

// A Verdict is something that is wrong, by the name of its alert.
type Verdict struct {
	Alert string `json:"alert"`
	Run   string `json:"run"`
	Rank  int64  `json:"rank"`
	Text  string `json:"text"`
}

// gravity orders alerts, gravest first.
var gravity = []string{"KernEngineGone", "KernHang", "KernSlowRank", "KernRankWaitedFor", "KernLosses", "KernUnknownHigh", "KernTraceCostHigh"}

func (v Verdict) grave() int { return slices.Index(gravity, v.Alert) }

// verdicts is what is wrong with a run.
func (r *run) verdicts(now time.Time) (all []Verdict) {
	say := func(alert string, rank int64, format string, args ...any) {
		all = append(all, Verdict{alert, r.name, rank, fmt.Sprintf("Rank %d of run %s ", rank, r.name) + fmt.Sprintf(format, args...)})
	}
	ratios := r.ratios(now)
	foreign := map[int64]float64{}
	for n, k := range r.ranks {
		if d, seconds, _ := k.lately(now, promptly); seconds > 0 {
			foreign[n] = float64(d.Foreign) / 1e9 / seconds
		}
	}
	usual := median(foreign)
	blame := r.blame(now)
	usually := median(blame)
	for _, n := range r.sorted() {
		k := r.ranks[n]
		switch k.last.Down {
		case "gone":
			say("KernEngineGone", n, "ended without saying so.")
		case "hung":
			say("KernHang", n, "is hung: kernels that it launched do not come.")
		case "silent":
			say("KernHang", n, "is silent: its process is stopped or cut off.")
		}
		if k.last.Down != "" {
			continue
		}
		slow := len(all)
		if o := ratios[n].Own; o > slowRatio {
			say("KernSlowRank", n, "is slow (compute): it computes %.0f%% longer than the fastest rank for equal batches.", 100*(o-1))
		}
		if f := foreign[n] - usual; len(foreign) > 1 && f > foreignShare {
			say("KernSlowRank", n, "is slow (foreign): other work computes on its GPU %.0f%% of the time.", 100*f)
		}
		if b := blame[n]; len(all) == slow && b > waitedShare && b > waitedTimes*usually {
			say("KernRankWaitedFor", n, "keeps the others waiting: they lose %.0f%% of their time.", 100*b)
		}
		v := k.view(now, n, ratios[n])
		if v.Dropped > 0 {
			say("KernLosses", n, "lost %d records in the last 15 minutes.", v.Dropped)
		}
		if v.Tracing && v.Last.Unknown > unknownShare {
			say("KernUnknownHigh", n, "has %.0f%% of its time unknown.", 100*v.Last.Unknown)
		}
		if v.Cost > costShare {
			say("KernTraceCostHigh", n, "pays %.0f%% of its step time for tracing.", 100*v.Cost)
		}
	}
	return all
}

// blame is the share of its time that each rank loses, on average, by waiting for a rank that is slow, disturbed or launches late.
func (r *run) blame(now time.Time) map[int64]float64 {
	shares := map[int64]float64{}
	for n, k := range r.ranks {
		waits := k.waited(now)
		if waits == nil {
			continue
		}
		shares[n] = 0
		for _, cause := range []string{"slow", "foreign", "host"} {
			shares[n] += waits[cause][1] / float64(len(r.ranks))
		}
	}
	return shares
}

// median of the values; of two in the middle, their mean; 0 of none.
func median(values map[int64]float64) float64 {
	var sorted []float64
	for _, v := range values {
		sorted = append(sorted, v)
	}
	slices.Sort(sorted)
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// A Change is how the mean step of the last minute differs from that of a minute 15 minutes ago. Mix and Inside add up to it.
type Change struct {
	Before float64 `json:"before_seconds"` // mean step
	Now    float64 `json:"now_seconds"`
	Mix    float64 `json:"mix_seconds"`    // other batches run
	Inside float64 `json:"inside_seconds"` // equal batches take longer
}

// changed is nil if nothing is known of 15 minutes ago.
func (r *run) changed(now time.Time) *Change {
	before, after := map[Set]Sums{}, map[Set]Sums{}
	for _, k := range r.ranks {
		_, seconds, sets := k.minute(now)
		old := k.before(now, Span-time.Minute)
		older := k.before(now, Span)
		if seconds == 0 || old == nil || older == nil || old == older {
			continue
		}
		add(after, sets)
		add(before, less(old.sets, older.sets))
	}
	a, b := total(before), total(after)
	if a.Steps == 0 || b.Steps == 0 {
		return nil
	}
	mean := func(s Sums) float64 { return float64(s.Wall) / float64(s.Steps) / 1e9 }
	c := &Change{Before: mean(a), Now: mean(b)}
	for set, s := range before {
		if t, both := after[set]; both {
			shares := float64(s.Steps)/float64(a.Steps) + float64(t.Steps)/float64(b.Steps)
			c.Inside += (mean(t) - mean(s)) * shares / 2
		}
	}
	c.Mix = c.Now - c.Before - c.Inside
	return c
}

func add(to, from map[Set]Sums) {
	for set, s := range from {
		t := to[set]
		to[set] = Sums{t.Steps + s.Steps, t.Wall + s.Wall, t.Compute + s.Compute}
	}
}

func total(sets map[Set]Sums) (t Sums) {
	for _, s := range sets {
		t = Sums{t.Steps + s.Steps, t.Wall + s.Wall, t.Compute + s.Compute}
	}
	return t
}

// Steps are the newest steps of a rank, oldest first; nil: it is not known.
func (h *History) Steps(k Key) []Step {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.runs[k.Run]; r != nil && r.ranks[k.Rank] != nil {
		return r.ranks[k.Rank].steps.all()
	}
	return nil
}

// Detailed are the steps with seq that are kept with their kernels, by rank; with seq 0, the newest of each rank.
func (h *History) Detailed(run string, seq uint64) (found []*Step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[run]
	if r == nil {
		return nil
	}
	for _, n := range r.sorted() {
		kept := r.ranks[n].steps.kept()
		for i := len(kept) - 1; i >= 0; i-- {
			if seq == 0 || kept[i].Seq == seq {
				found = append(found, kept[i])
				break
			}
		}
	}
	return found
}

// Kept are the seqs of the steps of a rank that are kept with their kernels.
func (h *History) Kept(k Key) map[uint64]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	seqs := map[uint64]bool{}
	if r := h.runs[k.Run]; r != nil && r.ranks[k.Rank] != nil {
		for _, s := range r.ranks[k.Rank].steps.kept() {
			seqs[s.Seq] = true
		}
	}
	return seqs
}
