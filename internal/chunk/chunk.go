// Package chunk packs the steps of one rank, with the shapes that they use, into the body of a log record, and reads it.
// CHUNK.md has the format.
//
// A Packer takes steps as they become final and hands out a chunk when it is whole; Unpack reads one. What a step's
// kernels have in common with those of other steps, its Shape, lies in a chunk once; a step itself is columns of numbers.
package chunk

import "github.com/kernhes/kernhes/internal/model"

// EventName and Version mark the log record of a chunk. Readers take versions from OldestVersion on, and refuse and count anything else.
const (
	EventName = "kernhes.steps"
	Version   = 3

	OldestVersion = 1 // that Unpack reads: chunks lie in queues and journals over an update
)

// Bounds of what a chunk holds.
const (
	// MaxBytes is the longest chunk that a Packer makes. OTLP receivers take messages up to 4 MiB by default.
	MaxBytes = 1<<20 - 4096
	// LimitBytes is the longest body that Unpack reads.
	LimitBytes = 7 << 19
	// MaxText is the longest text, in bytes; a Packer cuts longer ones.
	MaxText = 4096
)

// WindowSteps is how many steps in a row, by seq, share a window: chunks are cut between windows, on all ranks alike.
const WindowSteps = 64

// Window is the window of a seq.
func Window(seq int64) int64 { return seq >> 6 }

// What a chunk holds is defined once for all packages.
type (
	Class    = model.Class
	Identity = model.Identity
	Position = model.Position
	GroupBy  = model.GroupBy
	Shape    = model.Shape
	Launch   = model.Launch
	Step     = model.Step
	Copy     = model.Copy
	Issued   = model.Issued
	Request  = model.StepRequest
	Count    = model.Count
)

// Classes of kernels.
const (
	Compute = model.Compute
	Comm    = model.Comm
	Spin    = model.Spin
)

// ClassNames are the classes as tables write them.
var ClassNames = model.ClassNames

// What gives the group of a call.
const (
	GroupUnknown = model.GroupUnknown
	GroupNCCL    = model.GroupNCCL
	GroupText    = model.GroupText
	GroupSetting = model.GroupSetting
)

// GroupSources are the names of GroupBy as tables write them.
var GroupSources = model.GroupSources

// A Chunk is what Unpack read. Nothing of it is the body's memory.
type Chunk struct {
	Identity
	Counts []Count // as they stood when the chunk was cut
	Steps  []Step
	Copies []Copy
	Shapes []*Shape // those of Steps
}

// Rows are how many kernels the chunk holds.
func (c *Chunk) Rows() (n int) {
	for i := range c.Steps {
		n += len(c.Steps[i].Starts)
	}
	return n
}
