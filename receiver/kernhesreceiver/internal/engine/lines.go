package engine

import (
	"fmt"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// An OutboundStep is a final step on its way to the dump. Whoever takes it releases its hold.
type OutboundStep struct {
	StepTotals
	*Hold
}

// StepTotals is one step as the dump has it.
type StepTotals struct {
	Kind             string `json:"kind"`
	Run              string `json:"run"`
	Session          string `json:"session"`
	ID               string `json:"id"` // push time and thread: with the session, which step it is
	Rank             int64  `json:"rank"`
	Device           int    `json:"device"`
	Seq              uint64 `json:"seq"`
	Pairs            bool   `json:"pairs"` // seq is the same as on other ranks
	Text             string `json:"text"`
	Program          string `json:"program"`
	Vars             string `json:"vars"`
	Kernels          uint64 `json:"kernels"`
	Called           uint64 `json:"called"`
	Copies           uint64 `json:"copies"` // launched in it; those whose records came after it was final do not count
	ComputeNS        uint64 `json:"compute_ns"`
	CommNS           uint64 `json:"comm_ns"`
	OverlapNS        uint64 `json:"overlap_ns"`
	WallNS           uint64 `json:"wall_ns"`
	IdleNS           uint64 `json:"idle_ns"`
	ForeignComputeNS uint64 `json:"foreign_compute_ns"`
	Complete         bool   `json:"complete"`
	Untraced         bool   `json:"untraced,omitempty"` // nothing was traced while it ran: neither complete nor incomplete
	Reason           string `json:"reason,omitempty"`   // why it is not complete
	StartNS          uint64 `json:"start_ns"`           // first kernel's start, unix ns
	EndNS            uint64 `json:"end_ns"`             // last kernel's end, unix ns
	Frame            uint64 `json:"frame"`              // last frame that it rests on

	Messages []step.Message `json:"messages,omitempty"` // what its kernels communicate, as far as NCCL says it
}

// An NCCLReport is what NCCL's payloads told of a process.
type NCCLReport struct {
	Comm     string `json:"comm"` // id of the communicator with the most ranks: 16 hexadecimal digits; zeros: not known
	Rank     int    `json:"rank"` // in it; -1: not known
	Ranks    int    `json:"ranks"`
	Device   int    `json:"device"` // CUDA device of that rank; -1: not known
	Open     int    `json:"open"`   // ranges of NCCL's domain that are open
	Payloads uint64 `json:"payloads"`
	Unread   uint64 `json:"unread"` // of them, those whose schema is not known
}

// Unattributed counts records that are settled without a step.
type Unattributed struct {
	model.Settled
	Copies uint64 `json:"copies"`
}

// add adds o.
func (u *Unattributed) add(o Unattributed) {
	u.Settled.Add(o.Settled)
	u.Copies += o.Copies
}

// Less is u without o.
func (u Unattributed) Less(o Unattributed) Unattributed {
	return Unattributed{u.Settled.Less(o.Settled), u.Copies - o.Copies}
}

// SessionName is a session as the dump writes it: 16 hexadecimal digits.
func SessionName(id uint64) string { return fmt.Sprintf("%016x", id) }

// Keys of what the cgroup of the connected process says. What an engine says of these is not believed.
const (
	KeyContainer = "container.id"
	KeyPod       = "k8s.pod.uid"
)

// DropContainer deletes what an engine says of its container.
func DropContainer(info map[string]string) {
	delete(info, KeyContainer)
	delete(info, KeyPod)
}

// dropFixed takes from later pairs what a process is from its HELLO on: the server has put what the kernel knows in its place.
func dropFixed(info map[string]string) {
	DropContainer(info)
	delete(info, "host")
	delete(info, "pid")
}
