package engine

import (
	"time"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/groups"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
)

// Settings are what all engine processes of a receiver share. Those that have the name of a setting of the receiver are it.
type Settings struct {
	StepTimeout     time.Duration
	Patterns        []ranges.Pattern
	CallDomains     []string
	Groups          groups.Groups
	BatchEdges      []int64
	KVEdges         []int64
	Wall            *wall.Layout // nil: the fixed one
	MaxStrings      int
	MaxRanges       int
	MaxShapes       int
	MaxSeries       int
	MaxSessionBytes int
	MaxTotalSeries  int // 0: any number
	MaxTotalBytes   int // 0: any number

	Lines   bool // keep final steps for TakeLines
	Archive bool // pack all kernels into chunks for TakeChunks
	Sink    Sink // takes final steps; nil: none does
	// StepTimes takes what each step of a process in the mode windows took, under the lock of its session; nil: none does.
	StepTimes func(StepTime)
	Notice    func(Notice) // takes messages for the receiver's log; nil: none does
	Rules     *rules.Files
	Starts    *identity.Starts
}

// common is what all engine processes of a receiver share.
type common struct {
	notice      func(Notice)
	stepTimes   func(StepTime)
	stepTimeout uint64 // ns
	patterns    []ranges.Pattern
	calls       []string
	groups      groups.Groups
	buckets     buckets
	wall        *wall.Layout // nil: the fixed one
	maxStrings  int
	maxRanges   int
	maxSeries   int
	maxBytes    int
	maxDevices  int
	places      *Quota // of series
	memory      *Quota // bytes
	totals      bool
	archive     bool
	shapes      *step.Table
	rules       *rules.Files
	starts      *identity.Starts
	sink        Sink
}

// Engines begin the accounts of engine processes.
type Engines struct{ common *common }

// NewEngines returns the engines of a receiver.
func NewEngines(set Settings) *Engines {
	return &Engines{&common{
		notice: set.Notice, stepTimes: set.StepTimes, stepTimeout: uint64(set.StepTimeout), patterns: set.Patterns, calls: set.CallDomains, groups: set.Groups,
		buckets:    newBuckets(set.BatchEdges, set.KVEdges),
		wall:       set.Wall,
		maxStrings: set.MaxStrings, maxRanges: set.MaxRanges, maxSeries: set.MaxSeries, maxBytes: set.MaxSessionBytes, maxDevices: MaxDevices,
		places: NewQuota(set.MaxTotalSeries, leastPlaces), memory: NewQuota(set.MaxTotalBytes, leastMemory),
		totals: set.Lines, archive: set.Archive, shapes: step.NewTable(set.MaxShapes), rules: set.Rules, starts: set.Starts, sink: set.Sink,
	}}
}

// Memory is what all accounts take, in bytes.
func (e *Engines) Memory() int { return e.common.memory.Total() }

// Begin begins the account of a process that sent HELLO.
func (e *Engines) Begin(hello wire.Hello) *Process { return newProcess(e.common, hello, time.Now()) }
