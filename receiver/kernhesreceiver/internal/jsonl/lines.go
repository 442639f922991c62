package jsonl

import (
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// A SessionLine is the totals of one rank of a session that has ended.
type SessionLine struct {
	Kind                string             `json:"kind"`
	Run                 string             `json:"run"`
	Session             string             `json:"session"`
	Rank                int64              `json:"rank"`
	Device              int                `json:"device"`
	PID                 string             `json:"pid"`
	Host                string             `json:"host"`
	Mode                string             `json:"mode"`
	Ended               string             `json:"ended"` // bye or gone
	Kernels             uint64             `json:"kernels"`
	Copies              map[string]uint64  `json:"copies"`
	engine.LaunchCounts                    // launches, captured_launches, unfulfilled_launches
	FirstNS             uint64             `json:"first_ns"`
	LastNS              uint64             `json:"last_ns"`
	WatermarkNS         uint64             `json:"watermark_ns"`
	ComputeNS           uint64             `json:"compute_ns"`
	CommNS              uint64             `json:"comm_ns"`
	OverlapNS           uint64             `json:"overlap_ns"`
	CopyNS              uint64             `json:"copy_ns"`
	IdleNS              uint64             `json:"idle_ns"`
	UnknownNS           uint64             `json:"unknown_ns"`
	CommKernels         uint64             `json:"comm_kernels"`
	StepRanges          uint64             `json:"step_ranges"`
	StepsComplete       uint64             `json:"steps_complete"`
	StepsIncomplete     map[string]uint64  `json:"steps_incomplete"` // by reason
	Called              uint64             `json:"called"`
	model.Outcomes                         // in_steps, outside, late, invalid, duplicate
	InvalidBy           map[string]uint64  `json:"invalid_by"` // by reason
	Pending             uint64             `json:"pending"`
	Missing             uint64             `json:"missing"` // records that launches lacked when they were given up
	Dropped             map[string]uint64  `json:"dropped"` // by reason
	NCCL                *engine.NCCLReport `json:"nccl,omitempty"`
}

// An AckLine says that every record up to Frame is in a step line before it, or in one of these counts. They count since the
// session's last such line.
type AckLine struct {
	Kind    string `json:"kind"`
	Session string `json:"session"`
	Frame   uint64 `json:"frame"`
	engine.Unattributed
}

// SessionLines are the lines of a session that has ended.
func SessionLines(id uint64, reports []engine.Report, ended string) []any {
	lines := make([]any, 0, len(reports)+1)
	for i := range reports {
		r := &reports[i]
		lines = append(lines, SessionLine{
			Kind: "session", Run: r.Info["run"], Session: engine.SessionName(id), Rank: r.Rank, Device: r.Device,
			PID: r.Info["pid"], Host: r.Info["host"], Mode: r.Info["mode"], Ended: ended,
			Kernels: r.Kernels, Copies: r.Copies, LaunchCounts: r.Launches,
			FirstNS: r.FirstNS, LastNS: r.LastNS, WatermarkNS: r.WatermarkNS,
			ComputeNS: r.ComputeNS, CommNS: r.CommNS, OverlapNS: r.OverlapNS, CopyNS: r.CopyNS,
			IdleNS: r.IdleNS, UnknownNS: r.UnknownNS,
			CommKernels: r.Comm, StepRanges: r.StepRanges, StepsComplete: r.Complete, StepsIncomplete: r.Incomplete,
			Called: r.Called, Outcomes: r.Became, InvalidBy: r.Invalid, Pending: r.Pending, Missing: r.Missing, Dropped: r.Dropped,
			NCCL: r.NCCL,
		})
	}
	return lines
}
