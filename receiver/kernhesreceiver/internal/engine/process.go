// Package engine turns the frames of one engine process into the account of its kernels.
package engine

import (
	"fmt"
	"time"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/device"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/hooks"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/nccl"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/pace"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/seq"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// A Process is the account of one engine process: it hands each frame through the rooms. It is
// not safe for concurrent use.
type Process struct {
	set     *common
	session uint64
	info    map[string]string
	who
	hostClock
	classes
	outbound

	names  *cupti.Joiner
	ranges *ranges.Tracker
	nccl   *nccl.Follower
	steps  *step.Assembler
	pace   *pace.Pace
	places places
	hooks  hooks.Hooks[pace.Key]
	opened seq.Numbers // of steps, by thread and the rank that their texts give
	given  seq.Numbers // to steps, by rank

	devices   []*deviceState // in order of their ids
	main      *deviceState   // the first that was seen: has what is of the process as a whole
	supposed  *deviceState   // stands for the device of steps that were not traced, until a record names it; else nil
	graphMode graphMode

	lastFrame    uint64 // highest numbered frame taken
	snapshot     wire.Base
	begun        bool // a numbered frame, or the base of the snapshot, was taken
	unsure       bool // frames or events are missing: steps cannot be counted like on other ranks
	watermark    uint64
	gaps         [device.Whys]gap // that were told of since the last flush
	readable     bool
	traces       tracing
	times        stepTimes
	mode         string // in which kernels were traced last: what they are labelled with; off: none was yet
	accountEnded bool
	between      func() // is called between two parts of a large frame

	overflowed  uint64  // steps that counted in no series of their own
	shed        uint64  // times that what was open was given up
	overDevices records // that came, of devices beyond maxDevices
	unseated    uint64  // records and steps that counted in no series of their own, for max_total_series
	yielded     uint64  // times that what was open was given up for others, for max_total_bytes
	held        held
	packedBytes int // of the shapes that devices keep translated, about
	unchecked   int // bytes of frames since it was last worked out what is open
	warned      [len(LimitNames)]bool

	dropped            map[string]uint64 // by reason: what no device has
	missing            uint64            // records that launches lacked when they were given up
	shim               shimBooks
	early              []early // records that wait for the clock of a flush
	ledger             ledger
	acknowledgedCounts Unattributed // at the last acknowledgeable frame
}

func newProcess(set *common, hello wire.Hello, now time.Time) *Process {
	p := &Process{
		set: set, session: hello.Session, info: map[string]string{}, hostClock: hostClock{since: uint64(now.UnixNano())},
		who:     who{evidence: map[string]string{}, texts: map[int64]rankOwner{}},
		ranges:  ranges.New(set.patterns, set.calls, set.maxRanges),
		nccl:    nccl.New(),
		pace:    pace.New(set.wall, set.maxSeries),
		classes: classes{overrides: map[override]span.Class{}},
		between: func() {},
		dropped: map[string]uint64{}, shim: shimBooks{stats: map[uint32]uint64{}},
	}
	p.identify(hello.Info)
	p.held.user = p.user()
	p.pace.Seat = p.seatPace
	p.ruleset = set.rules.Latest()
	limits := cupti.DefaultLimits
	limits.Names = set.maxStrings
	p.names = cupti.New(limits, p.ruleset.Classes.Look, p.class)
	p.reclass, p.follower = p.names.Reclass, p.nccl
	p.steps = step.NewAssembler(set.shapes, p.names.Kernel, p.class, p.ranges.Text, p.nccl.Group, p.classShape)
	if m := p.ruleset.Manifest; m != nil {
		p.useManifest(m)
	}
	p.traces.open = hello.Info["mode"] == modeWindows && hello.Info["window_state"] == stateTracing // heard from its middle on
	p.modeChanged()
	return p
}

// part is how many records of a frame are taken at a time: at some 0.5 µs each, 2 ms.
const part = 4096

// Pause has a function called between two parts of a large frame, while all counts agree. It may let others read the account.
func (p *Process) Pause(between func()) { p.between = between }

// Received is the highest numbered frame taken.
func (p *Process) Received() uint64 { return p.lastFrame }

// Ended reports whether the account is closed.
func (p *Process) Ended() bool { return p.accountEnded }

// Frame takes one frame.
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
		p.skipped()
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

// skipped takes note that frames are missing: LOST says what they held.
func (p *Process) skipped() {
	p.unsure = true
	p.nccl.Lost()
	p.pace.Broken()
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
			p.windowLeft()
			p.modeChanged()
			p.renamed()
		}
		return nil
	case wire.KindStrings:
		return p.names.Strings(f.Body)
	case wire.KindEvents:
		n := 0
		return wire.Events(f.Body, func(e wire.Event) {
			p.event(e, f)
			if n++; n%part == 0 {
				p.between()
			}
		})
	case wire.KindKernels:
		return p.kernels(f)
	case wire.KindCopies:
		return p.copies(f)
	case wire.KindFlushed:
		return p.flushed(f.Body)
	case wire.KindLost:
		return p.lostRecords(f.Body)
	case wire.KindStats:
		return p.shim.tookStats(f.Body, p.snapshot.Number > 0)
	case wire.KindManifest:
		p.takeManifest(f.Body)
		return nil
	case wire.KindBye:
		return p.shim.tookBye(f.Body, p.snapshot.Number > 0)
	}
	return nil // clocks are for people who read the wire; unknown kinds are skipped
}

// renamed writes the description of the process, in traces and chunks, anew.
func (p *Process) renamed() {
	for _, d := range p.devices {
		d.source = nil
		d.packed.stale = true
	}
}

// Acknowledgeable is the frame before the first on which something open rests.
func (p *Process) Acknowledgeable() uint64 {
	frame, _ := p.Holds()
	return frame
}

// Holds is the frame up to which all is settled, and what rests on the next one; "" if nothing does.
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

// Unattributed counts what was settled without a step in the frames up to the acknowledgeable one.
func (p *Process) Unattributed() Unattributed {
	p.ledger.take(p.Acknowledgeable(), &p.acknowledgedCounts)
	return p.acknowledgedCounts
}
