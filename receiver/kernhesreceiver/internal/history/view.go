package history

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"time"
)

// A View is what the page shows, at one time. Its JSON is GET /live.
type View struct {
	Now      time.Time `json:"now"`
	Seconds  float64   `json:"bin_seconds"` // length of a bin of a strip
	Verdicts []Verdict `json:"verdicts"`    // what is wrong, gravest first; none: nothing
	Runs     []RunView `json:"runs"`        // newest first
}

// A RunView is one run.
type RunView struct {
	Name    string     `json:"run"`
	Model   string     `json:"model"`
	Engine  string     `json:"engine"`
	Ranks   []RankView `json:"ranks"`
	Beyond  uint64     `json:"readings_beyond_limit"` // of ranks that did not fit
	Sets    []SetView  `json:"steps"`                 // most time first
	Calls   []CallView `json:"slowest_calls"`
	Changed *Change    `json:"changed,omitempty"` // absent: the run is younger than Span
	Waits   []WaitView `json:"waits"`             // of all ranks by cause, most first; empty without the connector kernwaits
}

// A RankView is one rank. Shares are of device time, of the last minute.
type RankView struct {
	Rank       int64    `json:"rank"`
	PID        string   `json:"pid"`
	Host       string   `json:"host"`
	GPU        string   `json:"gpu"`
	Mode       string   `json:"mode"`
	Tracing    bool     `json:"tracing"`
	Down       string   `json:"down,omitempty"`
	StepAge    *float64 `json:"last_step_age"` // seconds; null: no step yet
	Strip      []Share  `json:"strip"`         // oldest bin first
	Last       Share    `json:"last_minute"`
	Steps      float64  `json:"steps_per_second"`
	Mean       float64  `json:"mean_step_seconds"`
	Ratio      float64  `json:"compute_over_fastest"`             // for equal steps; 0: not known
	RatioAll   float64  `json:"compute_and_foreign_over_fastest"` // likewise
	Wait       float64  `json:"wait_share"`                       // of time, for other ranks; 0 without the connector kernwaits
	Blame      float64  `json:"blame_share"`                      // seconds per second that others wait for it
	Foreign    float64  `json:"foreign_share"`                    // seconds per second
	Cost       float64  `json:"cost_share"`                       // of step time
	Dropped    uint64   `json:"dropped"`                          // in the last 15 minutes
	Incomplete uint64   `json:"incomplete"`                       // likewise
}

// A Share is how the traced part of a time was spent. Its four parts add up to 1; all are 0 where nothing was traced.
type Share struct {
	Compute float64 `json:"compute"`
	Comm    float64 `json:"comm"`
	Idle    float64 `json:"idle"`
	Unknown float64 `json:"unknown"` // by losses
	Traced  float64 `json:"traced"`  // how much of all time it is
}

func share(c Counters) Share {
	traced := float64(c.All() - min(c.Untraced, c.All()))
	if traced == 0 {
		return Share{}
	}
	return Share{
		float64(c.Compute) / traced, float64(c.Comm) / traced, float64(c.Idle) / traced, float64(c.Unknown-min(c.Untraced, c.Unknown)) / traced,
		traced / float64(c.All()),
	}
}

// A WaitView is why ranks wait: by what the last rank to arrive did before.
type WaitView struct {
	Cause string  `json:"cause"`
	Share float64 `json:"share"` // of the time of all ranks
}

// A SetView is the complete steps of one set: in the last minute, and in a minute 15 minutes ago. Times in seconds.
type SetView struct {
	Set
	Steps   uint64  `json:"steps"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	Past50  float64 `json:"p50_15m_ago"` // 0: not known
	Past99  float64 `json:"p99_15m_ago"`
	seconds float64
}

// A CallView is a call in the steps that were looked at in detail: one a second a rank.
type CallView struct {
	Program string  `json:"program"`
	Call    string  `json:"call"` // numbers in it are "*", so that layers are one
	Comm    bool    `json:"comm"`
	Seconds float64 `json:"seconds"` // a step, mean over ranks
	Share   float64 `json:"share"`   // of all kernel time in steps of the program
	Slowest int64   `json:"slowest"` // the rank that takes longest
	Ratio   float64 `json:"ratio"`   // of that rank to the fastest
}

// At is the view of one time.
func (h *History) At(now time.Time) View {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := View{Now: now, Seconds: Tick.Seconds(), Verdicts: []Verdict{}, Runs: []RunView{}}
	for _, r := range h.runs {
		v.Runs = append(v.Runs, r.view(now))
		v.Verdicts = append(v.Verdicts, r.verdicts(now)...)
	}
	slices.SortFunc(v.Runs, func(a, b RunView) int {
		return cmp.Or(h.runs[b.Name].heard.Compare(h.runs[a.Name].heard), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(v.Verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.grave(), b.grave()), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Rank, b.Rank))
	})
	return v
}

// sorted are the ranks in order.
func (r *run) sorted() []int64 { return slices.Sorted(maps.Keys(r.ranks)) }

func (r *run) view(now time.Time) RunView {
	v := RunView{Name: r.name, Beyond: r.beyond, Ranks: []RankView{}, Sets: r.setViews(now), Calls: r.calls(), Changed: r.changed(now), Waits: r.waits(now)}
	ratios := r.ratios(now)
	for _, n := range r.sorted() {
		k := r.ranks[n]
		v.Model, v.Engine = cmp.Or(v.Model, k.last.Model), cmp.Or(v.Engine, k.last.Engine)
		v.Ranks = append(v.Ranks, k.view(now, n, ratios[n]))
	}
	return v
}

func (k *rank) view(now time.Time, n int64, ratio Ratio) RankView {
	v := RankView{
		Rank: n, PID: k.last.PID, Host: k.last.Host, GPU: k.last.GPU, Mode: k.last.Mode, Tracing: k.last.Tracing, Down: k.last.Down,
		Ratio: ratio.Own, RatioAll: ratio.All,
	}
	if k.last.LastStep > 0 {
		age := max(0, k.heard.Sub(time.Unix(0, int64(k.last.LastStep))).Seconds()) // when the rank was read last
		v.StepAge = &age
	}
	// The bin that now lies in is not over.
	end := now.UnixNano() / int64(Tick)
	for tick := end - int64(Bins) + 1; tick <= end; tick++ {
		b := &k.bins[tick%int64(Bins)]
		if b.tick != tick {
			v.Strip = append(v.Strip, Share{})
			continue
		}
		v.Strip = append(v.Strip, share(b.Counters))
		v.Dropped += b.Dropped
		v.Incomplete += b.Incomplete
	}
	if d, seconds, sets := k.minute(now); seconds > 0 {
		v.Last = share(d)
		v.Steps = float64(d.Steps) / seconds
		v.Foreign = float64(d.Foreign) / 1e9 / seconds
		v.Wait, v.Blame = float64(d.Wait)/1e9/seconds, float64(d.Blame)/1e9/seconds
		var wall, steps uint64
		for _, s := range sets {
			wall += s.Wall
			steps += s.Steps
		}
		if steps > 0 {
			v.Mean = float64(wall) / float64(steps) / 1e9
			v.Cost = float64(d.Cost) / float64(wall)
		}
	}
	return v
}

// waited is the waits of about the last minute in seconds per second, by cause.
func (k *rank) waited(now time.Time) map[string][2]float64 {
	if len(k.past) == 0 || now.Sub(k.heard) > time.Minute {
		return nil
	}
	last, first := &k.past[len(k.past)-1], k.before(now, time.Minute)
	if first == nil {
		first = &k.past[0]
	}
	seconds := last.at.Sub(first.at).Seconds()
	if seconds == 0 {
		return nil
	}
	waits := map[string][2]float64{}
	for cause, w := range last.waits {
		old := first.waits[cause]
		waits[cause] = [2]float64{
			float64(w.Wait-min(w.Wait, old.Wait)) / 1e9 / seconds, float64(w.Blame-min(w.Blame, old.Blame)) / 1e9 / seconds,
		}
	}
	return waits
}

// waits are those of all ranks by cause.
func (r *run) waits(now time.Time) []WaitView {
	sums := map[string]float64{}
	for _, k := range r.ranks {
		for cause, w := range k.waited(now) {
			sums[cause] += w[0] / float64(len(r.ranks))
		}
	}
	views := []WaitView{}
	for cause, share := range sums {
		if share > 0 {
			views = append(views, WaitView{cause, share})
		}
	}
	slices.SortFunc(views, func(a, b WaitView) int { return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Cause, b.Cause)) })
	return views
}

// minute is what the rank did in about the last minute, up to when it was heard last: sums, how many seconds that was, and sums by set.
func (k *rank) minute(now time.Time) (d Counters, seconds float64, sets map[Set]Sums) {
	return k.lately(now, time.Minute)
}

// lately is the same of about the last time so long.
func (k *rank) lately(now time.Time, window time.Duration) (d Counters, seconds float64, sets map[Set]Sums) {
	if len(k.past) == 0 || now.Sub(k.heard) > time.Minute {
		return Counters{}, 0, nil
	}
	last := &k.past[len(k.past)-1]
	first := k.before(now, window)
	if first == nil {
		first = &k.past[0]
	}
	return last.counters.sub(first.counters), last.at.Sub(first.at).Seconds(), less(last.sets, first.sets)
}

// less is a less b, without what is empty.
func less(a, b map[Set]Sums) map[Set]Sums {
	d := map[Set]Sums{}
	for set, s := range a {
		old := b[set]
		if s.Steps > old.Steps {
			d[set] = Sums{s.Steps - old.Steps, s.Wall - min(s.Wall, old.Wall), s.Compute - min(s.Compute, old.Compute)}
		}
	}
	return d
}

func (r *run) setViews(now time.Time) []SetView {
	views := []SetView{}
	minute := now.Unix() / 60
	for set, q := range r.sets {
		s, n := q.between(minute-1, minute+1)
		past, _ := q.between(minute-minutes+1, minute-minutes+3)
		v := SetView{
			Set: set, Steps: n, P50: s.quantile(0.5) / 1e9, P99: s.quantile(0.99) / 1e9,
			Past50: past.quantile(0.5) / 1e9, Past99: past.quantile(0.99) / 1e9,
		}
		v.seconds = v.P50 * float64(n)
		if n > 0 || v.Past50 > 0 {
			views = append(views, v)
		}
	}
	slices.SortFunc(views, func(a, b SetView) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.Program, b.Program), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.KV, b.KV))
	})
	return views
}

// A merger remembers labels without their numbers.
type merger map[string]string

// numbers are those that stand alone between dots: of a layer or an expert.
var numbers = regexp.MustCompile(`\.[0-9]+(\.|$)`)

func (m merger) of(label string) string {
	merged, ok := m[label]
	if !ok {
		merged = numbers.ReplaceAllString(label, ".*$1")
		m[label] = merged
	}
	return merged
}

// maxCalls is how many calls a view lists.
const maxCalls = 12

// calls are the calls that took most time in the steps that are kept with their kernels.
func (r *run) calls() []CallView {
	type place struct {
		program, call string
		comm          bool
	}
	type taken struct{ ns float64 }
	labels := merger{}
	all := map[string]float64{}                // by program: ns of kernels
	times := map[place]map[int64]*taken{}      // by place and rank
	programs := map[string]map[int64]float64{} // steps, by program and rank
	for n, k := range r.ranks {
		for _, s := range k.steps.kept() {
			if programs[s.Program] == nil {
				programs[s.Program] = map[int64]float64{}
			}
			programs[s.Program][n]++
			for i := range s.Detail {
				d := &s.Detail[i]
				p := place{s.Program, labels.of(d.Call), d.Comm}
				if times[p] == nil {
					times[p] = map[int64]*taken{}
				}
				if times[p][n] == nil {
					times[p][n] = &taken{}
				}
				times[p][n].ns += float64(d.Dur)
				all[s.Program] += float64(d.Dur)
			}
		}
	}
	views := []CallView{}
	for p, ranks := range times {
		v := CallView{Program: p.program, Call: p.call, Comm: p.comm}
		var sum, longest float64
		shortest := -1.0
		for _, n := range slices.Sorted(maps.Keys(ranks)) {
			sum += ranks[n].ns
			mean := ranks[n].ns / programs[p.program][n]
			v.Seconds += mean / float64(len(ranks)) / 1e9
			if mean > longest {
				v.Slowest, longest = n, mean
			}
			if shortest < 0 || mean < shortest {
				shortest = mean
			}
		}
		v.Share = sum / all[p.program]
		if shortest > 0 {
			v.Ratio = longest / shortest
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b CallView) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Program, b.Program), cmp.Compare(a.Call, b.Call))
	})
	return views[:min(len(views), maxCalls)]
}
