package kernhesreceiver

import (
	"cmp"
	"strconv"
	"time"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
)

// A rankReport is a copy of one rank's totals, in integer nanoseconds and records: what the
// metrics and the dump say of it. A process has one for each device that it has used, in order
// of the devices. Nothing in it changes after it was made.
type Report struct {
	info   map[string]string // HELLO's pairs as INFO changed them
	mode   string            // in which kernels were traced last, also while they are not; off: none was yet
	rank   int64
	device int

	claims   string // what the process calls its start: equal for those that say they are of one, whichever run they have
	runFrom  string // the evidence for the run, for people; "": it is not settled
	rankFrom string
	late     uint64 // times that evidence for run or rank came too late to count

	tracing bool // kernels are traced now
	hung    bool // nothing happens, and kernels that were launched do not come

	silent time.Duration // since its session's last frame came, by the collector's clock
	down   string        // why it is not heard; empty: it is

	whole    bool // it has what is of the process as a whole: one report of each process
	unplaced bool // no kernel has shown which device it is, and one still may
	guessed  bool // the process has run no step, so that its rank is no claim

	sinceNS     uint64 // unix ns: when the totals began to count
	lossSinceNS uint64 // unix ns: when the losses did, if that was before a reload of the configuration; else 0
	nowNS       uint64 // engine's clock at its last heartbeat
	firstNS     uint64 // first kernel's start; 0: no kernel yet
	lastNS      uint64 // last kernel's end
	watermarkNS uint64 // 0: none yet
	lastStepNS  uint64 // end of the last closed step; 0: none yet

	computeNS, commNS, idleNS, unknownNS uint64 // device time: these add up to watermark − first start
	overlapNS, copyNS                    uint64
	CUPTINS                              uint64 // what CUPTI took of the engine for the kernels: an estimate

	counts     books.Counts      // all that the identities are of
	kernels    uint64            // received
	became     KernelStates      // what became of them
	invalid    map[string]uint64 // those of became.Invalid, by reason
	pending    uint64
	comm       uint64 // classified as communication
	called     uint64 // in steps, with a call
	copies     map[string]uint64
	launches   LaunchCounts
	mismatches uint64            // kernels and launches that the manifest does not explain
	limited    map[string]uint64 // what did not fit, by limit; only in one report of a process, else nil
	missing    uint64            // records that launches lacked when they were given up
	stepRanges uint64
	complete   uint64
	incomplete map[string]uint64 // by reason
	dropped    map[string]uint64 // records lost, by reason; what no rank has is in the first report of a process
	readable   bool

	coverage coverage.Report
	ranges   *RangesReport // of the process; only in one report, else nil
	series   []SeriesReport
	stats    map[uint32]uint64 // the shim's STATS; only in one report of a process
	NCCL     *NCCLReport       // nil: no payload came; only in one report of a process
}

// lossSince is when losses began to be counted, unix ns.
func (r *Report) lossSince() uint64 { return cmp.Or(r.lossSinceNS, r.sinceNS) }

// A rangesReport is what is known of a process's NVTX ranges.
type RangesReport struct {
	counts    ranges.Counts
	open      uint64
	leaks     []ranges.Leak
	unmatched []ranges.Unmatched
}

// kernelStates says what became of kernel records; each is in one of them.
type KernelStates struct {
	InSteps   uint64 `json:"in_steps"`
	Outside   uint64 `json:"outside"`
	Late      uint64 `json:"late"`
	Invalid   uint64 `json:"invalid"`
	Duplicate uint64 `json:"duplicate"`
}

// sum is all records that something became of.
func (s KernelStates) sum() uint64 { return s.InSteps + s.Outside + s.Late + s.Invalid + s.Duplicate }

type LaunchCounts struct {
	All         uint64 `json:"launches"`
	Captured    uint64 `json:"captured_launches"`
	Unfulfilled uint64 `json:"unfulfilled_launches"`
	Unchecked   uint64 `json:"unchecked_replays"`
}

// A seriesReport is the totals of the complete steps of one label set.
type SeriesReport struct {
	program, batch, kv           string
	steps                        uint64
	computeNS, commNS, foreignNS uint64
	wallNS                       uint64
	wall                         [len(WallBounds) + 1]uint64 // steps by wall time: up to each bound, then above
	exemplar                     Exemplar
}

// An exemplar is the last step of a label set that was chosen for a trace.
type Exemplar struct {
	span   SpanID
	wallNS uint64
	endNS  uint64 // unix ns; 0: there is none
}

// wallBounds are the inclusive upper bounds of kern_step_seconds in ns: two to three a doubling where decode
// steps lie (2 to 50 ms), coarser outside.
var WallBounds = [...]uint64{
	250e3, 500e3, 1e6, 2e6, 3e6, 4e6, 5e6, 6e6, 8e6, 10e6, 12e6, 15e6, 20e6, 25e6, 30e6, 40e6, 50e6,
	75e6, 100e6, 150e6, 200e6, 300e6, 500e6, 1e9, 2e9, 5e9, 10e9, 30e9,
}

// addWall counts a complete step of that wall time.
func (s *SeriesReport) addWall(ns uint64) {
	s.wallNS += ns
	for i, bound := range WallBounds {
		if ns <= bound {
			s.wall[i]++
			return
		}
	}
	s.wall[len(WallBounds)]++
}

// source is whose numbers these are.
func (r *Report) source() *Source {
	return &Source{Info: r.info, Rank: r.rank, Device: r.device, Mode: r.mode}
}

// claimRank is what the process claims to be: the name of its start, and the rank.
func (r *Report) claimRank() string {
	return cmp.Or(r.claims, r.info["run"]) + "/" + strconv.FormatInt(r.rank, 10)
}

// nowOf is the engine's time by the collector's clock: it goes on while nothing is heard.
func (r *Report) nowOf() uint64 { return r.nowNS + uint64(r.silent) }
