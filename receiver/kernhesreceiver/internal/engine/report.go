package engine

import (
	"cmp"
	"strconv"
	"time"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/pace"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
)

// A Report is a copy of one rank's totals, in integer nanoseconds and records: what the
// metrics and the dump say of it. A process has one for each device that it has used, in order
// of the devices. Nothing in it changes after it was made.
type Report struct {
	Info   map[string]string // HELLO's pairs as INFO changed them
	Mode   string            // in which kernels were traced last, also while they are not; off: none was yet
	Rank   int64
	Device int

	Claims   string // what the process calls its start: equal for those that say they are of one, whichever run they have
	RunFrom  string // the evidence for the run, for people; "": it is not settled
	RankFrom string
	Late     uint64 // times that evidence for run or rank came too late to count

	Tracing bool   // kernels are traced now
	Hung    bool   // nothing happens, and kernels that were launched do not come
	Stall   *Stall // where it stands, if nothing goes on; else nil

	Silent time.Duration // since its session's last frame came, by the collector's clock
	Down   string        // why it is not heard; empty: it is

	Whole    bool // it has what is of the process as a whole: one report of each process
	Unplaced bool // no kernel has shown which device it is, and one still may
	Guessed  bool // the process has run no step, so that its rank is no claim

	SinceNS     uint64 // unix ns: when the totals began to count
	LossSinceNS uint64 // unix ns: when the losses did, if that was before a reload of the configuration; else 0
	NowNS       uint64 // engine's clock at its last heartbeat
	FirstNS     uint64 // first kernel's start; 0: no kernel yet
	LastNS      uint64 // last kernel's end
	WatermarkNS uint64 // 0: none yet
	LastStepNS  uint64 // end of the last closed step; 0: none yet

	ComputeNS, CommNS, IdleNS, UnknownNS uint64 // device time: these add up to watermark − first start
	OverlapNS, CopyNS                    uint64
	CUPTINS                              uint64 // what CUPTI took of the engine for the kernels: an estimate

	UnknownByNS [device.Whys]uint64 // UnknownNS by reason
	Windows     *WindowsReport      // nil: not in the mode windows; only in one report of a process

	Counts     books.Counts      // all that the identities are of
	Kernels    uint64            // received
	Became     model.Outcomes    // what became of them
	Invalid    map[string]uint64 // those of Became.Invalid, by reason
	Pending    uint64
	Comm       uint64 // classified as communication
	Called     uint64 // in steps, with a call
	Copies     map[string]uint64
	Launches   LaunchCounts
	Mismatches uint64            // kernels and launches that the manifest does not explain
	Limited    map[string]uint64 // what did not fit, by limit; only in one report of a process, else nil
	Missing    uint64            // records that launches lacked when they were given up
	StepRanges uint64
	Complete   uint64
	Overlong   uint64            // steps, complete in no sense, that were given up while their ranges were open
	Untraced   uint64            // steps while which nothing was traced: neither complete nor incomplete
	Incomplete map[string]uint64 // by reason
	Dropped    map[string]uint64 // records lost, by reason; what no rank has is in the first report of a process
	Readable   bool

	Coverage coverage.Report
	Ranges   *RangesReport // of the process; only in one report, else nil
	Series   []SeriesReport
	Stats    map[uint32]uint64 // the shim's STATS; only in one report of a process
	Pace     []pace.Series     // times of the steps' ranges; only in one report of a process
	Places   []PlaceReport     // where steps are pushed; likewise
	Empty    uint64            // step ranges without a launch while tracing was on; likewise
	NCCL     *NCCLReport       // nil: no payload came; only in one report of a process
}

// A Standing is what an engine says of itself and of CUPTI: little enough to be asked often.
type Standing struct {
	Run        string // empty: it is not settled
	Claims     string // what the process calls its start
	Rank       int64  // of its first device
	PID        string
	Mode       string
	ModeReason string
	Subscribed bool             // to CUPTI
	Windows    *WindowsStanding // nil: not in the mode windows
}

// Standing is how the process stands now.
func (p *Process) Standing() Standing {
	s := Standing{
		Run: p.info["run"], Claims: p.claimed(), PID: p.info["pid"],
		Mode: p.info["mode"], ModeReason: p.info["mode_reason"], Subscribed: p.info["subscribed"] == "1", Windows: p.windowsStanding(),
	}
	if len(p.devices) > 0 {
		s.Rank = p.devices[0].rank
	}
	return s
}

// TracedNS is the part of the device time in which kernels were traced.
func (r *Report) TracedNS() uint64 {
	return r.ComputeNS + r.CommNS + r.IdleNS + r.UnknownNS - r.UntracedNS()
}

// UntracedNS is the rest: outside windows, yielded or off.
func (r *Report) UntracedNS() uint64 {
	return r.UnknownByNS[device.OutsideWindow] + r.UnknownByNS[device.Yielded] + r.UnknownByNS[device.Off]
}

// Watched reports whether kernels are traced now, or will be in the next window.
func (r *Report) Watched() bool {
	return r.Tracing || r.Info["mode"] == modeWindows && r.Info["window_state"] != StateStuck
}

// LossSince is when losses began to be counted, unix ns.
func (r *Report) LossSince() uint64 { return cmp.Or(r.LossSinceNS, r.SinceNS) }

// A RangesReport is what is known of a process's NVTX ranges.
type RangesReport struct {
	Counts    ranges.Counts
	Open      uint64
	Leaks     []ranges.Leak
	Unmatched []ranges.Unmatched
}

// LaunchCounts are of the launches of a process.
type LaunchCounts struct {
	All         uint64 `json:"launches"`
	Captured    uint64 `json:"captured_launches"`
	Unfulfilled uint64 `json:"unfulfilled_launches"`
	Unchecked   uint64 `json:"unchecked_replays"`
}

// A SeriesReport is the totals of the complete steps of one label set.
type SeriesReport struct {
	Program, Batch, KV           string
	Steps                        uint64
	ComputeNS, CommNS, ForeignNS uint64
	WallNS                       uint64
	Wall                         wall.Counts
	Exemplar                     Exemplar
}

// An Exemplar is the last step of a label set that was chosen for a trace.
type Exemplar struct {
	Span   SpanID
	WallNS uint64
	EndNS  uint64 // unix ns; 0: there is none
}

// AddWall counts a complete step of that wall time.
func (s *SeriesReport) AddWall(ns uint64) {
	s.WallNS += ns
	s.Wall.Add(ns)
}

// Source is whose numbers these are.
func (r *Report) Source() *Source {
	return &Source{Info: r.Info, Rank: r.Rank, Device: r.Device, Mode: r.Mode}
}

// ClaimRank is what the process claims to be: the name of its start, and the rank.
func (r *Report) ClaimRank() string {
	return cmp.Or(r.Claims, r.Info["run"]) + "/" + strconv.FormatInt(r.Rank, 10)
}

// GPU is the product name of the rank's device; empty: not known.
func (r *Report) GPU() string { return r.Info["gpu."+strconv.Itoa(r.Device)+".name"] }

// NowOf is the engine's time by the collector's clock: it goes on while nothing is heard.
func (r *Report) NowOf() uint64 { return r.NowNS + uint64(r.Silent) }
