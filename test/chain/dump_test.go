//go:build chain

package chain_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stepLine is a step in the receiver's dump.
type stepLine struct {
	Run              string `json:"run"`
	Session          string `json:"session"`
	ID               string `json:"id"`
	Rank             int64  `json:"rank"`
	Device           uint32 `json:"device"`
	Seq              uint64 `json:"seq"`
	Pairs            bool   `json:"pairs"`
	Text             string `json:"text"`
	Program          string `json:"program"`
	Vars             string `json:"vars"`
	Kernels          int    `json:"kernels"`
	Called           int    `json:"called"`
	ComputeNS        int64  `json:"compute_ns"`
	CommNS           int64  `json:"comm_ns"`
	OverlapNS        int64  `json:"overlap_ns"`
	WallNS           int64  `json:"wall_ns"`
	IdleNS           int64  `json:"idle_ns"`
	ForeignComputeNS int64  `json:"foreign_compute_ns"`
	Untraced         bool   `json:"untraced"`
	Complete         bool   `json:"complete"`
	Reason           string `json:"reason"`
	StartNS          int64  `json:"start_ns"`
	EndNS            int64  `json:"end_ns"`
}

// A told is what NCCL said by payloads: of the process in a session's line, of kernels in a step's.
type told struct {
	Messages []message `json:"messages"`
	NCCL     *struct {
		Comm     string `json:"comm"`
		Rank     int    `json:"rank"`
		Ranks    int    `json:"ranks"`
		Device   int    `json:"device"`
		Open     int    `json:"open"`
		Payloads int    `json:"payloads"`
		Unread   int    `json:"unread"`
	} `json:"nccl"`
}

type message struct {
	Group   string `json:"group"`
	Bytes   int    `json:"bytes"`
	Kernels int    `json:"kernels"`
}

// A sessionLine is the totals of one rank of a session that has ended.
type sessionLine struct {
	Run              string         `json:"run"`
	Session          string         `json:"session"`
	Rank             int64          `json:"rank"`
	Device           uint32         `json:"device"`
	PID              string         `json:"pid"`
	Mode             string         `json:"mode"`
	Ended            string         `json:"ended"`
	Kernels          int            `json:"kernels"`
	Copies           map[string]int `json:"copies"`
	Launches         int            `json:"launches"`
	CapturedLaunches int            `json:"captured_launches"`
	Unfulfilled      int            `json:"unfulfilled_launches"`
	FirstNS          int64          `json:"first_ns"`
	LastNS           int64          `json:"last_ns"`
	WatermarkNS      int64          `json:"watermark_ns"`
	ComputeNS        int64          `json:"compute_ns"`
	CommNS           int64          `json:"comm_ns"`
	OverlapNS        int64          `json:"overlap_ns"`
	CopyNS           int64          `json:"copy_ns"`
	IdleNS           int64          `json:"idle_ns"`
	UnknownNS        int64          `json:"unknown_ns"`
	CommKernels      int            `json:"comm_kernels"`
	StepRanges       int            `json:"step_ranges"`
	StepsComplete    int            `json:"steps_complete"`
	StepsIncomplete  map[string]int `json:"steps_incomplete"`
	Called           int            `json:"called"`
	InSteps          int            `json:"in_steps"`
	Outside          int            `json:"outside"`
	Late             int            `json:"late"`
	Invalid          int            `json:"invalid"`
	Duplicate        int            `json:"duplicate"`
	InvalidBy        map[string]int `json:"invalid_by"`
	Pending          int            `json:"pending"`
	Missing          int            `json:"missing"`
	Dropped          map[string]int `json:"dropped"`
}

// An ackLine is what was settled without a step since the session's last one.
type ackLine struct {
	Session   string `json:"session"`
	Frame     uint64 `json:"frame"`
	Outside   int    `json:"outside"`
	Late      int    `json:"late"`
	Invalid   int    `json:"invalid"`
	Duplicate int    `json:"duplicate"`
	Copies    int    `json:"copies"`
}

// A dumped is all that a dump says, in its order.
type dumped struct {
	steps    []stepLine
	acks     []ackLine
	sessions []sessionLine
}

// read reads the dump.
func (c *collector) read(t testing.TB) dumped {
	t.Helper()
	text, err := os.ReadFile(c.dump)
	require.NoError(t, err)
	var d dumped
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written, or torn by a kill
		}
		var kind struct{ Kind string }
		require.NoError(t, json.Unmarshal(line, &kind), "%s", line)
		switch kind.Kind {
		case "step":
			d.steps = append(d.steps, decode[stepLine](t, line))
		case "ack":
			d.acks = append(d.acks, decode[ackLine](t, line))
		case "session":
			d.sessions = append(d.sessions, decode[sessionLine](t, line))
		default:
			t.Errorf("the dump has a line of kind %q", kind.Kind)
		}
	}
	return d
}

func decode[T any](t testing.TB, line []byte) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(line, &v), "%s", line)
	return v
}

// allRuns are those of all steps, in order.
func (d dumped) allRuns() (all []string) {
	for _, s := range d.steps {
		all = append(all, s.Run)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// runs are those of the sessions that have ended, in order.
func (d dumped) runs() (all []string) {
	for _, s := range d.sessions {
		all = append(all, s.Run)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// of is what the dump says of the sessions of one run.
func (d dumped) of(run string) dumped {
	var of dumped
	session := map[string]bool{}
	for _, s := range d.steps {
		if s.Run == run {
			of.steps = append(of.steps, s)
			session[s.Session] = true
		}
	}
	for _, s := range d.sessions {
		if s.Run == run {
			of.sessions = append(of.sessions, s)
			session[s.Session] = true
		}
	}
	for _, a := range d.acks {
		if session[a.Session] {
			of.acks = append(of.acks, a)
		}
	}
	return of
}
