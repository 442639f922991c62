package wire

import (
	"fmt"
	"slices"
)

// HookDomain is the NVTX domain in which the Python package sends its marks.
const HookDomain = "kernhes"

// Schemas of its payloads, by their static ids in that domain. WIRE.md, "Payloads of the hooks", has the layouts.
const (
	SchemaStepDevice   = 1<<24 + 1 // kernhes.step_device.v1
	SchemaRequest      = 1<<24 + 2 // kernhes.request.v1
	SchemaStepRequests = 1<<24 + 3 // kernhes.step_requests.v1
)

// GraphsUnknown is the number of graphs of a step whose replays were not counted.
const GraphsUnknown = 0xffffffff

// Flags of kernhes.step_device.v1.
const (
	stepUnmeasured = 1
	stepNoBatch    = 2
)

// A StepDevice is a payload of kernhes.step_device.v1: what one step took on the device, and what was in it.
type StepDevice [56]byte

// ParseStepDevice reads the payload of a PAYLOAD with SchemaStepDevice.
func ParseStepDevice(b []byte) (*StepDevice, error) {
	if len(b) < len(StepDevice{}) {
		return nil, fmt.Errorf("kernhes.step_device.v1: %d bytes, want %d: %w", len(b), len(StepDevice{}), ErrBadFrame)
	}
	return (*StepDevice)(b), nil
}

// Seq is that of the step, as its range's text gives it.
func (s *StepDevice) Seq() uint64 { return le.Uint64(s[:]) }

// DeviceNS is the time in ns from the step's begin to its end on its stream; false: it was not measured.
func (s *StepDevice) DeviceNS() (uint64, bool) {
	return le.Uint64(s[8:]), s.flags()&stepUnmeasured == 0
}

// Graphs is how many CUDA graphs were replayed in the step, or GraphsUnknown.
func (s *StepDevice) Graphs() uint32 { return le.Uint32(s[48:]) }

func (s *StepDevice) flags() uint32 { return le.Uint32(s[52:]) }

// A Batch is what was in a step, by the names of forward-pass metrics. KV tokens are those before the step.
type Batch struct {
	PrefillTokens, PrefillKVTokens, DecodeKVTokens uint64
	PrefillRequests, DecodeRequests                uint32
}

// Batch is what was in the step; false: it is not known.
func (s *StepDevice) Batch() (Batch, bool) {
	return Batch{le.Uint64(s[16:]), le.Uint64(s[24:]), le.Uint64(s[32:]), le.Uint32(s[40:]), le.Uint32(s[44:])}, s.flags()&stepNoBatch == 0
}

// A Request is a payload of kernhes.request.v1: from now on its number stands for a request.
type Request struct {
	Number  uint32
	TraceID [16]byte // as OpenTelemetry has it; zero: no trace is known
	ID      []byte   // UTF-8, if the engine's is; it lies in the payload
}

// ParseRequest reads the payload of a PAYLOAD with SchemaRequest.
func ParseRequest(b []byte) (Request, error) {
	const head = 24
	if len(b) < head || uint64(len(b)) < head+uint64(le.Uint32(b[4:])) {
		return Request{}, fmt.Errorf("kernhes.request.v1: %d bytes, want %d and those of the id: %w", len(b), head, ErrBadFrame)
	}
	r := Request{Number: le.Uint32(b), ID: b[head : head+le.Uint32(b[4:])]}
	copy(r.TraceID[:], b[8:head])
	slices.Reverse(r.TraceID[:8])
	slices.Reverse(r.TraceID[8:])
	return r, nil
}

// StepRequests is a payload of kernhes.step_requests.v1: some of the requests of a step.
type StepRequests struct{ b []byte }

// A StepRequest is one request of a step.
type StepRequest struct {
	Number uint32
	Tokens uint32 // that the step computes for it
	Cached uint32 // its tokens in the KV cache before
}

// ParseStepRequests reads the payload of a PAYLOAD with SchemaStepRequests.
func ParseStepRequests(b []byte) (StepRequests, error) {
	const head, each = 24, 12
	if len(b) < head || uint64(len(b)) < head+each*uint64(le.Uint32(b[16:])) {
		return StepRequests{}, fmt.Errorf("kernhes.step_requests.v1: %d bytes, want %d and %d a request: %w", len(b), head, each, ErrBadFrame)
	}
	return StepRequests{b}, nil
}

// Seq is that of the step, as its range's text gives it.
func (s StepRequests) Seq() uint64 { return le.Uint64(s.b) }

// Total is how many requests the step has, in all its marks.
func (s StepRequests) Total() uint32 { return le.Uint32(s.b[8:]) }

// First is the index in the step of this mark's first request.
func (s StepRequests) First() uint32 { return le.Uint32(s.b[12:]) }

// Len is how many requests this mark has.
func (s StepRequests) Len() int { return int(le.Uint32(s.b[16:])) }

// At is the request i of this mark, from 0.
func (s StepRequests) At(i int) StepRequest {
	b := s.b[24+12*i:][:12]
	return StepRequest{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])}
}
