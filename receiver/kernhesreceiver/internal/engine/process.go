package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/groups"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/manifest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/nccl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/seq"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/wall"
)

// A process is the account of one engine process: it hands each frame through the rooms. It is an
// engine, and not safe for concurrent use.
type Process struct {
	set     *common
	session uint64
	info    map[string]string
	since   uint64 // unix ns
	who     who

	names  *cupti.Joiner
	ranges *ranges.Tracker
	nccl   *nccl.Follower
	steps  *step.Assembler
	opened seq.Numbers // of steps, by thread and the rank that their texts give
	given  seq.Numbers // to steps, by rank

	devices   []*deviceState // in order of their ids
	main      *deviceState   // the first that was seen: has what is of the process as a whole
	graphMode graphMode

	lastFrame    uint64 // highest numbered frame taken
	snapshot     wire.Base
	begun        bool   // a numbered frame, or the base of the snapshot, was taken
	unsure       bool   // frames or events are missing: steps cannot be counted like on other ranks
	now          uint64 // engine's clock, unix ns
	active       uint64 // when the engine last did something, or a record came: engine's clock, unix ns
	stuck        bool   // a launch was given up since then
	monotonic    uint64
	watermark    uint64
	loss         bool   // a loss was told of since the last flush
	lossUntil    uint64 // unix ns: it lies before this
	readable     bool
	untraced     bool   // tracing is off
	mode         string // in which kernels were traced last: what they are labelled with; off: none was yet
	accountEnded bool

	manifest           *manifest.Manifest // nil: there is none
	overrides          map[override]span.Class
	manifestFromEngine bool
	ruleset            *rules.Ruleset // that classes kernels
	mismatches         uint64         // kernels and launches that the manifest does not explain, once for each new shape

	overflowed  uint64  // steps that counted in no series of their own
	shed        uint64  // times that what was open was given up
	overDevices records // that came, of devices beyond maxDevices
	unchecked   int     // bytes of frames since it was last worked out what is open
	warned      [len(LimitNames)]bool

	dropped            map[string]uint64 // by reason: what no device has
	missing            uint64            // records that launches lacked when they were given up
	shim               shimBooks
	stats              map[uint32]uint64
	totals             []OutboundStep
	holds              openHolds // of what has left, or will
	packing            packing
	early              []early // records that wait for the clock of a flush
	ledger             ledger
	acknowledgedCounts Unattributed // at the last acknowledgeable frame
}

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

	Lines   bool         // keep final steps for TakeLines
	Archive bool         // pack all kernels into chunks for TakeChunks
	Sink    Sink         // takes final steps; nil: nobody does
	Notice  func(Notice) // takes messages for the receiver's log; nil: nobody does
	Rules   *rules.Files
	Starts  *identity.Starts
}

// common is what all engine processes of a receiver share.
type common struct {
	notice      func(Notice)
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
		notice: set.Notice, stepTimeout: uint64(set.StepTimeout), patterns: set.Patterns, calls: set.CallDomains, groups: set.Groups,
		buckets:    newBuckets(set.BatchEdges, set.KVEdges),
		wall:       set.Wall,
		maxStrings: set.MaxStrings, maxRanges: set.MaxRanges, maxSeries: set.MaxSeries, maxBytes: set.MaxSessionBytes, maxDevices: MaxDevices,
		totals: set.Lines, archive: set.Archive, shapes: step.NewTable(set.MaxShapes), rules: set.Rules, starts: set.Starts, sink: set.Sink,
	}}
}

// Begin begins the account of a process that said HELLO.
func (e *Engines) Begin(hello wire.Hello) *Process { return newProcess(e.common, hello, time.Now()) }

func newProcess(set *common, hello wire.Hello, now time.Time) *Process {
	p := &Process{
		set: set, session: hello.Session, info: map[string]string{}, since: uint64(now.UnixNano()),
		who:       who{evidence: map[string]string{}, texts: map[int64]rankOwner{}},
		ranges:    ranges.New(set.patterns, set.calls, set.maxRanges),
		nccl:      nccl.New(),
		overrides: map[override]span.Class{},
		dropped:   map[string]uint64{}, stats: map[uint32]uint64{},
	}
	p.identify(hello.Info)
	p.ruleset = set.rules.Latest()
	limits := cupti.DefaultLimits
	limits.Names = set.maxStrings
	p.names = cupti.New(limits, p.ruleset.Classes.Look, p.class)
	p.steps = step.NewAssembler(set.shapes, p.names.Kernel, p.class, p.ranges.Text, p.nccl.Group, p.classShape)
	if m := p.ruleset.Manifest; m != nil {
		p.useManifest(m)
	}
	p.tracing()
	return p
}

// tracing takes note of whether kernels are traced, as the engine says. While they are not, idle is unknown, and steps lack launches.
func (p *Process) tracing() {
	off := p.info["mode"] == "off"
	if mode := p.info["mode"]; mode != p.mode && (!off || p.mode == "") {
		for _, d := range p.devices {
			d.taken = d.taken.in(p.mode, d.kernels)
		}
		p.mode = mode
	}
	if off == p.untraced {
		return
	}
	p.untraced = off
	p.steps.Traced(!off)
	p.lost(p.now)
}

// A deviceState is one device that the process uses.
type deviceState struct {
	id      uint16
	rank    int64
	source  *Source // nil: to be made anew
	account device.Account
	outside *cupti.Columns // of the kernels that belong to no step
	copying *cupti.Columns
	closed  []*step.Step // not final yet, in order of their first start
	packed  packed

	stepCopies      stepCopies // only where final steps are kept for TakeSteps
	kernels         uint64
	taken           taken
	became          model.Outcomes    // of the kernels that are settled
	settledBefore   uint64            // those of became.Duplicate that an earlier collector had settled
	invalid         map[string]uint64 // kernels, by reason
	commKernels     uint64
	kernelsWithCall uint64
	lastKernelEnd   uint64 // latest end of a kernel, unix ns
	copies          map[string]uint64
	badCopies       map[string]uint64 // of them, those whose timestamps cannot be believed, by reason
	complete        uint64
	failed          map[string]uint64 // incomplete steps by reason
	lastStep        uint64            // end of the last step that became final, unix ns
	series          map[seriesKey]*SeriesReport
	coverage        coverage.Account
}

// device returns the state of a device, making it if need be.
func (p *Process) device(id uint16) *deviceState {
	i, ok := p.findDevice(id)
	if !ok {
		p.devices = slices.Insert(p.devices, i, &deviceState{
			id: id, rank: NoRank, outside: &cupti.Columns{}, copying: &cupti.Columns{}, invalid: map[string]uint64{},
			copies: map[string]uint64{}, badCopies: map[string]uint64{}, failed: map[string]uint64{}, series: map[seriesKey]*SeriesReport{},
		})
		if p.main == nil {
			p.main = p.devices[i]
		}
		if p.loss {
			p.devices[i].account.Lost(p.lossUntil)
		}
	}
	return p.devices[i]
}

// findDevice returns where a device is among those that were seen, or would be.
func (p *Process) findDevice(id uint16) (int, bool) {
	return slices.BinarySearchFunc(p.devices, id, func(d *deviceState, id uint16) int { return cmp.Compare(d.id, id) })
}

// received is the highest numbered frame taken.
func (p *Process) Received() uint64 { return p.lastFrame }

// ended reports whether the account is closed.
func (p *Process) Ended() bool { return p.accountEnded }

// frame takes one frame.
func (p *Process) Frame(f wire.Frame) error {
	switch {
	case f.Kind == wire.KindBase:
		return p.begin(f.Body)
	case f.Pinned() != (f.Number == 0) && f.Kind <= wire.KindBye:
		return fmt.Errorf("%s has number %d and flags %#x: the snapshot's have PINNED and no number, all others a number: %w",
			f.Kind, f.Number, f.Flags, wire.ErrBadFrame)
	case f.Pinned():
		if p.begun {
			return nil // the state that it gives is known
		}
	case f.Number != 0 && f.Number <= p.lastFrame:
		return nil
	case f.Number > p.lastFrame+1:
		p.gap()
	}
	if err := p.take(f); err != nil {
		return err
	}
	if f.Number != 0 {
		p.begun = true
		p.lastFrame = f.Number
	}
	p.bound(f)
	return nil
}

// begin takes the end of the snapshot: numbered frames go on from there.
func (p *Process) begin(body []byte) error {
	base, err := wire.ParseBase(body)
	if err != nil || p.begun {
		return err
	}
	p.begun = true
	p.snapshot = base
	p.lastFrame = base.Number
	if p.unsure = base.Number > 0; p.unsure {
		p.steps.Joined()
	}
	return nil
}

// gap takes note that frames are missing: LOST says what they held.
func (p *Process) gap() {
	p.unsure = true
	p.nccl.Lost()
	p.shim.kernels.gap, p.shim.copies.gap = true, true
	p.lost(p.now)
}

// take hands a frame to the rooms.
func (p *Process) take(f wire.Frame) error {
	switch f.Kind {
	case wire.KindInfo:
		info, err := wire.ParseInfo(f.Body)
		if err != nil {
			return err
		}
		if len(p.info) < 4*wire.MaxPairs {
			dropFixed(info)
			p.identify(info)
			p.tracing()
			p.renamed()
		}
		return nil
	case wire.KindStrings:
		return p.names.Strings(f.Body)
	case wire.KindEvents:
		return wire.Events(f.Body, func(e wire.Event) { p.event(e, f) })
	case wire.KindKernels:
		return p.kernels(f)
	case wire.KindCopies:
		return p.copies(f)
	case wire.KindFlushed:
		return p.flushed(f.Body)
	case wire.KindLost:
		return p.lostRecords(f.Body)
	case wire.KindStats:
		return p.tookStats(f.Body)
	case wire.KindManifest:
		p.takeManifest(f.Body)
		return nil
	case wire.KindBye:
		return p.tookBye(f.Body)
	}
	return nil // clocks are for people who read the wire; unknown kinds are skipped
}

// renamed has what is said of the process, in traces and chunks, said anew.
func (p *Process) renamed() {
	for _, d := range p.devices {
		d.source = nil
		d.packed.stale = true
	}
}

// note enters into the ledger what was settled without a step and rests on a frame. That is the frame of
// a record's launch where it is known: a record that comes again after a restart, whose launch lies before the
// snapshot, counts for nothing, so it must have been counted when that launch's frame was acknowledged.
func (p *Process) note(frame uint64, l Unattributed) { p.ledger.note(frame, l) }

// acknowledgeable is the frame before the first on which something open rests.
func (p *Process) Acknowledgeable() uint64 {
	frame, _ := p.Holds()
	return frame
}

// holds is the frame up to which all is settled, and what rests on the next one; "" if nothing does.
func (p *Process) Holds() (frame uint64, by string) {
	frame = p.lastFrame
	hold := func(first uint64, what string) {
		if first = max(first, 1) - 1; first < frame {
			frame, by = first, what
		}
	}
	if f, ok := p.steps.Held(); ok {
		hold(f, "an open step")
	}
	if _, f, ok := p.names.Oldest(); ok {
		hold(f, "a launch whose records have not come")
	}
	for _, d := range p.devices {
		for _, s := range d.closed {
			hold(s.Frame, "a step that is not final")
		}
	}
	for _, d := range p.devices {
		if d.packed.unattributed != nil {
			hold(d.packed.first, "kernels outside any step that wait for a flush")
		}
		if f, ok := d.packed.held.first(); ok {
			hold(f, "copies whose step is not final")
		}
		if d.packed.open != 0 {
			hold(uint64(d.packed.open), "a chunk that is still open")
		}
	}
	for _, e := range p.early {
		hold(e.frame, "records that end after the last flush")
	}
	if f, ok := p.holds.first(); ok {
		hold(f, "the logs pipeline or the dump")
	}
	return frame, by
}

// loose counts what was settled without a step in the frames up to the acknowledgeable one.
func (p *Process) Unattributed() Unattributed {
	p.ledger.take(p.Acknowledgeable(), &p.acknowledgedCounts)
	return p.acknowledgedCounts
}

// TakeSteps returns the steps that became final since the last call.
func (p *Process) TakeSteps() []OutboundStep {
	lines := p.totals
	p.totals = nil
	return lines
}
