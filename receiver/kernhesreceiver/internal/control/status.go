package control

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/resource"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Status is what GET /status answers. Durations are in seconds; a null age is of what never was. Texts come from engines.
type Status struct {
	Now      time.Time       `json:"now"`
	Since    time.Time       `json:"since"` // of the receiver
	Version  string          `json:"version"`
	Rules    string          `json:"rules_version"`
	Bye      uint64          `json:"sessions_ended_bye"`
	Gone     uint64          `json:"sessions_ended_gone"`
	Delivery *deliveryStatus `json:"delivery,omitempty"` // what goes wrong with the logs pipeline, which has the archive, and the dump; absent: nothing
	Problems []string        `json:"problems"`           // for people, most severe first
	Sessions []sessionStatus `json:"sessions"`
	LeftOut  int             `json:"ranks_left_out"` // ranks that are not in sessions: those with most list but some
}

// A sessionStatus is one engine process.
type sessionStatus struct {
	Session       string            `json:"session"`
	Run           string            `json:"run"`       // empty: it is not settled
	RunFrom       string            `json:"run_from"`  // the evidence
	RankFrom      string            `json:"rank_from"` // likewise
	claims        string            // of reports
	guessed       bool              // of reports
	PID           string            `json:"pid"`
	Host          string            `json:"host"`
	Engine        string            `json:"engine"`
	EngineVersion string            `json:"engine_version"`
	Model         string            `json:"model"`
	Mode          string            `json:"mode"`
	ModeReason    string            `json:"mode_reason,omitempty"`
	Windows       *windowsStatus    `json:"windows,omitempty"` // in the mode windows
	Subscribed    bool              `json:"subscribed"`        // to CUPTI, which mostly takes but one
	Shim          string            `json:"shim_version"`
	CUPTI         string            `json:"cupti_version"`
	Faults        []string          `json:"cupti_known_faults"`
	Driver        string            `json:"driver_version"`
	Connected     bool              `json:"connected"`
	OpenFrames    uint64            `json:"open_frames"`       // taken and not settled; the engine keeps them, to send them again
	HeldBy        string            `json:"held_by,omitempty"` // what rests on the first of them
	Waits         float64           `json:"waiting_seconds"`   // for its engine to reconnect
	HeardAge      *float64          `json:"heard_age"`         // since the engine's last frame
	Up            bool              `json:"up"`                // it is heard
	Down          string            `json:"down,omitempty"`    // why it is not: silent or hung
	OpenRanges    []openStatus      `json:"open_ranges"`       // NVTX ranges that are open, most of them first
	RangeFaults   map[string]uint64 `json:"range_faults"`      // as kern_range_faults_total
	Unmatched     []unmatchedStatus `json:"unmatched_ranges"`  // texts that match no pattern, those with the most kernel time first
	Lost          map[string]uint64 `json:"lost"`              // records, by reason
	Readable      bool              `json:"drop_count_known"`  // CUPTI says how many it dropped
	Missing       uint64            `json:"missing_kernels"`
	engine.LaunchCounts
	Ranks []rankStatus `json:"ranks"`

	Steps      stepsStatus `json:"steps"`
	stepRanges uint64
}

// NewDelivery says what is not delivered, since when (zero: all is taken again), and how many records were refused for good.
func NewDelivery(problem string, since time.Time, refused uint64) *deliveryStatus {
	d := &deliveryStatus{Error: clean(problem), Refused: refused}
	if !since.IsZero() {
		d.Since = &since
	}
	return d
}

// A deliveryStatus says what is not delivered.
type deliveryStatus struct {
	Error   string     `json:"error"`
	Since   *time.Time `json:"since,omitempty"` // nothing is taken since then; absent: all is taken again
	Refused uint64     `json:"refused_records"` // kernels, copies and memsets that were refused for good, since the receiver started
}

// An openStatus is NVTX ranges of a thread and domain that are open.
type openStatus struct {
	Thread  uint32 `json:"thread"`
	Domain  string `json:"domain"`
	Text    string `json:"text"` // of most of them
	Open    uint64 `json:"open"`
	Leaking bool   `json:"leaking"` // so many that they are surely never popped
}

// An unmatchedStatus is a text that matches no pattern: each number in it is "#".
type unmatchedStatus struct {
	Text    string  `json:"text"`
	Domain  string  `json:"domain"`
	Ranges  uint64  `json:"ranges"`
	Kernels uint64  `json:"kernels"` // launched inside such ranges and outside any step
	Seconds float64 `json:"seconds"` // of those kernels
	Paste   string  `json:"paste"`   // a pattern that matches it
}

// A rankStatus is one device of a process.
type rankStatus struct {
	Rank         int64             `json:"rank"`
	Device       int               `json:"device"`
	GPU          string            `json:"gpu"`
	UUID         string            `json:"gpu_uuid"`
	KernelAge    *float64          `json:"last_kernel_age"` // ages go on while nothing is heard
	StepAge      *float64          `json:"last_step_age"`
	WatermarkAge *float64          `json:"watermark_age"`
	Compute      float64           `json:"compute_seconds"`
	Comm         float64           `json:"comm_seconds"`
	Idle         float64           `json:"idle_seconds"`
	Unknown      float64           `json:"unknown_seconds"`
	Traced       float64           `json:"traced_seconds"` // all but unknown outside windows, yielded and off
	Lost         float64           `json:"-"`              // unknown by losses
	Overlapped   float64           `json:"overlapped_comm_seconds"`
	Copy         float64           `json:"copy_seconds"`
	Steps        uint64            `json:"steps"`
	Incomplete   map[string]uint64 `json:"steps_incomplete"`
	Untraced     uint64            `json:"steps_untraced"` // neither complete nor incomplete
	Kernels      uint64            `json:"kernels"`
	model.Outcomes
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

// Receiver is how a receiver stands as a whole, its live sessions aside.
type Receiver struct {
	Since     time.Time
	Version   string
	Rules     string // version of the table that classes kernels
	Bye, Gone uint64 // ended sessions
	Delivery  *deliveryStatus
	Refused   []string // why files of the user are
}

// NewStatus says how a receiver and its live sessions stand.
func NewStatus(now time.Time, receiver Receiver, sessions []fleet.Session) Status {
	s := Status{Now: now, Since: receiver.Since, Version: receiver.Version, Rules: receiver.Rules, Bye: receiver.Bye, Gone: receiver.Gone,
		Delivery: receiver.Delivery, Sessions: []sessionStatus{}}
	for i := range sessions {
		s.Sessions = append(s.Sessions, newSessionStatus(now, &sessions[i]))
	}
	slices.SortFunc(s.Sessions, func(a, b sessionStatus) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.firstRank(), b.firstRank()), cmp.Compare(a.Session, b.Session))
	})
	s.Problems = problems(&s, receiver.Refused, fleet.SilentRuns(sessions))
	s.bound()
	return s
}

func (s *sessionStatus) firstRank() int64 {
	if len(s.Ranks) == 0 {
		return -1
	}
	return s.Ranks[0].Rank
}

func newSessionStatus(now time.Time, from *fleet.Session) sessionStatus {
	s := sessionStatus{Session: engine.SessionName(from.ID), Connected: from.Connected, OpenFrames: from.OpenFrames, HeldBy: from.HeldBy,
		Ranks: []rankStatus{}, Lost: map[string]uint64{}, OpenRanges: []openStatus{}, Unmatched: []unmatchedStatus{}, RangeFaults: map[string]uint64{},
		Steps: stepsStatus{Places: []placeStatus{}}}
	if !from.Connected {
		s.Waits = from.Waits.Seconds()
	}
	for i := range from.Reports {
		r := &from.Reports[i]
		if i == 0 { // what is of the process as a whole
			text := func(key string) string { return clean(r.Info[key]) }
			s.guessed = r.Guessed
			s.claims, s.RunFrom, s.RankFrom = cmp.Or(r.Claims, r.Info["run"]), r.RunFrom, r.RankFrom
			s.Run, s.PID, s.Host, s.Engine = text("run"), text("pid"), text("host"), text("engine")
			s.EngineVersion, s.Model = text("engine_version"), text("model")
			s.Mode, s.ModeReason, s.Subscribed = text("mode"), text("mode_reason"), text("subscribed") == "1"
			s.Shim, s.CUPTI, s.Driver = text("shim_version"), text("cupti_version"), text("driver_version")
			s.Faults = resource.FaultTexts(r.Info, s.Mode)
			silent := r.Silent.Seconds()
			s.HeardAge, s.Up, s.Down = &silent, r.Down == "", r.Down
			s.Windows = newWindowsStatus(r.Windows)
			s.Readable, s.Missing, s.LaunchCounts = r.Readable, r.Missing, r.Launches
		}
		if r.Ranges != nil {
			s.ranges(r.Ranges)
			s.stepRanges = r.StepRanges
			s.steps(r)
		}
		for reason, n := range r.Dropped {
			s.Lost[reason] += n
		}
		s.Steps.Overlong += r.Overlong
		s.Ranks = append(s.Ranks, newRankStatus(r))
	}
	return s
}

func newRankStatus(r *engine.Report) rankStatus {
	gpu := "gpu." + strconv.Itoa(r.Device) + "."
	return rankStatus{
		Rank: r.Rank, Device: r.Device, GPU: clean(r.Info[gpu+"name"]), UUID: clean(r.Info[gpu+"uuid"]),
		KernelAge: age(r.LastNS, r.NowOf()), StepAge: age(r.LastStepNS, r.NowOf()), WatermarkAge: age(r.WatermarkNS, r.NowOf()),
		Compute: secondsOf(r.ComputeNS), Comm: secondsOf(r.CommNS), Idle: secondsOf(r.IdleNS), Unknown: secondsOf(r.UnknownNS),
		Traced: secondsOf(r.TracedNS()), Lost: secondsOf(r.UnknownByNS[device.Loss]),
		Overlapped: secondsOf(r.OverlapNS), Copy: secondsOf(r.CopyNS),
		Steps: r.Complete, Incomplete: r.Incomplete, Untraced: r.Untraced, Kernels: r.Kernels, Outcomes: r.Became, Pending: r.Pending,
		InvalidBy: r.Invalid, CommKernels: r.Comm, Coverage: newCoverageStatus(&r.Coverage), Books: r.Counts, Residue: books.Residues(r.Counts),
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
		c.Classified[name] = secondsOf(r.By[by].NS)
	}
	for _, n := range r.Defaulted {
		c.Defaulted = append(c.Defaulted, nameStatus{clean(n.Name), secondsOf(n.NS), n.Kernels})
	}
	for _, n := range r.Unlabelled {
		c.Unlabelled = append(c.Unlabelled, nameStatus{clean(n.Name), secondsOf(n.NS), n.Kernels})
	}
	return c
}

// A windowsStatus is how the windows of a process go. Costs are of its run in the last hour.
type windowsStatus struct {
	State    string            `json:"state"`
	Outcomes map[string]uint64 `json:"windows"` // by how they ended
	Missed   uint64            `json:"missed"`  // orders
	Left     uint64            `json:"left"`    // that the process may still open
	Held     float64           `json:"held_seconds"`
	Slowdown *float64          `json:"slowdown,omitempty"`   // of steps inside, as a share of those outside; absent: not measured yet
	Cost     *float64          `json:"cost_share,omitempty"` // of all step time
	Last     string            `json:"last_why,omitempty"`
	Closer   uint64            `json:"looked_closer"`
}

func newWindowsStatus(w *engine.WindowsReport) *windowsStatus {
	if w == nil {
		return nil
	}
	s := &windowsStatus{State: clean(w.State), Outcomes: w.Outcomes, Missed: w.Missed, Left: w.Left, Held: secondsOf(w.Held), Last: clean(w.Last), Closer: w.Closer}
	if w.Measured {
		s.Slowdown, s.Cost = &w.Slowdown, &w.Share
	}
	return s
}

// secondsOf is ns as seconds.
func secondsOf(ns uint64) float64 { return float64(ns) / 1e9 }

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
		a = secondsOf(now - then)
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
	return wire.Text(strings.ToValidUTF8(s, "\uFFFD"))
}
