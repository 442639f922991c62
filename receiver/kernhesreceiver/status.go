package kernhesreceiver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A status is what GET /status answers. Durations are in seconds; a null age is of what never was. Texts come from engines.
type status struct {
	Now      time.Time       `json:"now"`
	Since    time.Time       `json:"since"` // of the receiver
	Version  string          `json:"version"`
	Rules    string          `json:"rules_version"`
	Bye      uint64          `json:"sessions_ended_bye"`
	Gone     uint64          `json:"sessions_ended_gone"`
	Problems []string        `json:"problems"` // for people, most severe first
	Sessions []sessionStatus `json:"sessions"`
}

// A sessionStatus is one engine process.
type sessionStatus struct {
	Session       string            `json:"session"`
	Run           string            `json:"run"`       // empty: it is not settled
	RunFrom       string            `json:"run_from"`  // the evidence
	RankFrom      string            `json:"rank_from"` // likewise
	claims        string            // of reports
	PID           string            `json:"pid"`
	Host          string            `json:"host"`
	Engine        string            `json:"engine"`
	EngineVersion string            `json:"engine_version"`
	Model         string            `json:"model"`
	Mode          string            `json:"mode"`
	ModeReason    string            `json:"mode_reason,omitempty"`
	Subscribed    bool              `json:"subscribed"` // to CUPTI, which mostly takes but one
	Shim          string            `json:"shim_version"`
	CUPTI         string            `json:"cupti_version"`
	Faults        []string          `json:"cupti_known_faults"`
	Driver        string            `json:"driver_version"`
	Connected     bool              `json:"connected"`
	OpenFrames    uint64            `json:"open_frames"`       // taken and not settled; the engine keeps them, to send them again
	HeldBy        string            `json:"held_by,omitempty"` // what rests on the first of them
	Waits         float64           `json:"waiting_seconds"`   // for its engine to reconnect
	HeardAge      *float64          `json:"heard_age"`         // since the engine's last heartbeat
	Lost          map[string]uint64 `json:"lost"`              // records, by reason
	Readable      bool              `json:"drop_count_known"`  // CUPTI says how many it dropped
	Missing       uint64            `json:"missing_kernels"`
	launchCounts
	Ranks []rankStatus `json:"ranks"`
}

// A rankStatus is one device of a process.
type rankStatus struct {
	Rank         int64             `json:"rank"`
	Device       int               `json:"device"`
	GPU          string            `json:"gpu"`
	UUID         string            `json:"gpu_uuid"`
	KernelAge    *float64          `json:"last_kernel_age"` // ages are by the engine's clock, at its last heartbeat
	StepAge      *float64          `json:"last_step_age"`
	WatermarkAge *float64          `json:"watermark_age"`
	Compute      float64           `json:"compute_seconds"`
	Comm         float64           `json:"comm_seconds"`
	Idle         float64           `json:"idle_seconds"`
	Unknown      float64           `json:"unknown_seconds"`
	Overlapped   float64           `json:"overlapped_comm_seconds"`
	Copy         float64           `json:"copy_seconds"`
	Steps        uint64            `json:"steps"`
	Incomplete   map[string]uint64 `json:"steps_incomplete"`
	Kernels      uint64            `json:"kernels"`
	kernelStates
	Pending     uint64            `json:"pending"`
	InvalidBy   map[string]uint64 `json:"invalid_by_reason"`
	CommKernels uint64            `json:"comm_kernels"`
	Coverage    *coverageStatus   `json:"coverage"`
	Books       books.Counts      `json:"books"`   // docs/books.md; the process's own are with its first rank
	Residue     map[string]int64  `json:"residue"` // what the books cannot explain, by identity: 0
}

// A coverageStatus says how much of the kernels' time is known for what it is.
type coverageStatus struct {
	Classified map[string]float64 `json:"classified_seconds"` // by manifest, rule, default
	InStep     float64            `json:"in_step_fraction"`   // of all kernels' time
	Labelled   float64            `json:"labelled_fraction"`  // of that in steps
	Defaulted  []nameStatus       `json:"default_classed"`    // most time first
	Unlabelled []nameStatus       `json:"unlabelled"`
}

type nameStatus struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Kernels uint64  `json:"kernels"`
}

// status says how the receiver's live sessions stand.
func (r *kernhesReceiver) status(now time.Time) status {
	report := receiverReport{since: r.begun, refused: r.said.refused()}
	report.bye, report.gone = r.table.ended()
	return newStatus(now, report, r.set.BuildInfo.Version, r.said.now().rules.Version, r.live(now))
}

// newStatus says how live sessions stand.
func newStatus(now time.Time, receiver receiverReport, version, rules string, sessions []liveSession) status {
	s := status{Now: now, Since: receiver.since, Version: version, Rules: rules, Bye: receiver.bye, Gone: receiver.gone,
		Sessions: []sessionStatus{}}
	for i := range sessions {
		s.Sessions = append(s.Sessions, newSessionStatus(now, &sessions[i]))
	}
	slices.SortFunc(s.Sessions, func(a, b sessionStatus) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.firstRank(), b.firstRank()), cmp.Compare(a.Session, b.Session))
	})
	s.Problems = problems(&s, receiver.refused, quietRuns(sessions))
	return s
}

func (s *sessionStatus) firstRank() int64 {
	if len(s.Ranks) == 0 {
		return -1
	}
	return s.Ranks[0].Rank
}

func newSessionStatus(now time.Time, from *liveSession) sessionStatus {
	s := sessionStatus{Session: sessionName(from.id), Connected: from.connected, OpenFrames: from.open, HeldBy: from.holds,
		Ranks: []rankStatus{}, Lost: map[string]uint64{}}
	if !from.connected {
		s.Waits = from.waits.Seconds()
	}
	for i := range from.reports {
		r := &from.reports[i]
		if i == 0 { // what is of the process as a whole
			text := func(key string) string { return clean(r.info[key]) }
			s.claims, s.RunFrom, s.RankFrom = cmp.Or(r.claims, r.info["run"]), r.runFrom, r.rankFrom
			s.Run, s.PID, s.Host, s.Engine = text("run"), text("pid"), text("host"), text("engine")
			s.EngineVersion, s.Model = text("engine_version"), text("model")
			s.Mode, s.ModeReason, s.Subscribed = text("mode"), text("mode_reason"), text("subscribed") == "1"
			s.Shim, s.CUPTI, s.Driver = text("shim_version"), text("cupti_version"), text("driver_version")
			s.Faults = faultTexts(r.info, s.Mode)
			s.HeardAge = age(r.nowNS, uint64(now.UnixNano()))
			s.Readable, s.Missing, s.launchCounts = r.readable, r.missing, r.launches
		}
		for reason, n := range r.dropped {
			s.Lost[reason] += n
		}
		s.Ranks = append(s.Ranks, newRankStatus(r))
	}
	return s
}

func newRankStatus(r *rankReport) rankStatus {
	gpu := "gpu." + strconv.Itoa(r.device) + "."
	return rankStatus{
		Rank: r.rank, Device: r.device, GPU: clean(r.info[gpu+"name"]), UUID: clean(r.info[gpu+"uuid"]),
		KernelAge: age(r.lastNS, r.nowOf()), StepAge: age(r.lastStepNS, r.nowOf()), WatermarkAge: age(r.watermarkNS, r.nowOf()),
		Compute: seconds(r.computeNS), Comm: seconds(r.commNS), Idle: seconds(r.idleNS), Unknown: seconds(r.unknownNS),
		Overlapped: seconds(r.overlapNS), Copy: seconds(r.copyNS),
		Steps: r.complete, Incomplete: r.incomplete, Kernels: r.kernels, kernelStates: r.became, Pending: r.pending,
		InvalidBy: r.invalid, CommKernels: r.comm, Coverage: newCoverageStatus(&r.coverage), Books: r.counts, Residue: books.Residues(r.counts),
	}
}

// newCoverageStatus is nil as long as no kernel has counted.
func newCoverageStatus(r *coverage.Report) *coverageStatus {
	all := r.All()
	if all.Kernels == 0 {
		return nil
	}
	c := &coverageStatus{Classified: map[string]float64{}, InStep: fraction(r.InStep.NS, all.NS), Labelled: fraction(r.Labelled.NS, r.InStep.NS),
		Defaulted: []nameStatus{}, Unlabelled: []nameStatus{}}
	for by, name := range span.ByNames {
		c.Classified[name] = seconds(r.By[by].NS)
	}
	for _, n := range r.Defaulted {
		c.Defaulted = append(c.Defaulted, nameStatus{clean(n.Name), seconds(n.NS), n.Kernels})
	}
	for _, n := range r.Unlabelled {
		c.Unlabelled = append(c.Unlabelled, nameStatus{clean(n.Name), seconds(n.NS), n.Kernels})
	}
	return c
}

// fraction is part of all, 0 of nothing.
func fraction(part, all uint64) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

// age is the seconds from then to now: nil if then is 0, and none below 0.
func age(then, now uint64) *float64 {
	if then == 0 {
		return nil
	}
	a := 0.0
	if now > then {
		a = seconds(now - then)
	}
	return &a
}

// maxStatusText bounds a text of an engine in the status, in bytes.
const maxStatusText = 300

// clean makes a text of an engine fit to be shown: valid, bounded, without control characters.
func clean(s string) string {
	if len(s) > maxStatusText {
		s = s[:maxStatusText] + "…"
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
			return '\uFFFD'
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// problems are what a person should look at; refused says why files of the user are, quiet are the runs without communication.
func problems(s *status, refused []string, quiet map[string]bool) []string {
	list := []string{}
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	type claim struct {
		name string
		rank int64
	}
	claims := map[claim][]string{} // runs of connected sessions
	for i := range s.Sessions {
		p := &s.Sessions[i]
		for _, r := range p.Ranks {
			for _, identity := range slices.Sorted(maps.Keys(r.Residue)) {
				if n := r.Residue[identity]; n != 0 {
					say("rank %d of run %s: the books do not add up: %s by %d", r.Rank, p.Run, identity, n)
				}
			}
			if p.Connected && p.Run != "" && r.Rank != noRank {
				one := claim{p.claims, r.Rank}
				claims[one] = append(claims[one], p.Run)
			}
		}
	}
	for _, one := range slices.SortedFunc(maps.Keys(claims), func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.rank, b.rank))
	}) {
		if runs := claims[one]; len(runs) > 1 {
			say("rank %d of run %s: %d processes claim to be it, and are kept apart as runs %s", one.rank, runs[0], len(runs), strings.Join(runs, ", "))
		}
	}
	for _, why := range refused {
		say("%s", clean(why))
	}
	for i := range s.Sessions {
		p := &s.Sessions[i]
		name := fmt.Sprintf("rank %d of run %s", p.firstRank(), p.Run)
		if !p.Connected {
			say("%s: process %s is not connected", name, p.PID)
		}
		if p.Mode != "hes" {
			say("%s: traces in mode %q, %s", name, p.Mode, cmp.Or(p.ModeReason, "as asked"))
		}
		for _, reason := range slices.Sorted(maps.Keys(p.Lost)) {
			if n := p.Lost[reason]; n > 0 {
				say("%s: %d records lost: %s", name, n, reason)
			}
		}
		if !p.Readable {
			say("%s: CUPTI does not say how many records it dropped", name)
		}
	}
	for _, run := range slices.Sorted(maps.Keys(quiet)) {
		say("run %s: several ranks, and no communication was ever seen: its kernels may have names that no rule knows", clean(run))
	}
	return list
}
