// Package orders turns how engines stand into windows that their shims are told to trace.
package orders

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/runname"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/windows"
)

// Tick is how often it is looked whether a window is due.
const Tick = 500 * time.Millisecond

// Engines are the live processes that orders go to.
type Engines interface {
	Standings() []fleet.Standing
	Command(session uint64, frame []byte) bool // false: its connection ends, or there is none
}

// A Desk gives orders. It is safe for concurrent use.
type Desk struct {
	log        *zap.Logger
	engines    Engines
	controller *windows.Controller
}

// New returns a Desk that has given no order. Its orders have ids after now, so a collector that starts anew uses none again.
func New(log *zap.Logger, engines Engines, set windows.Settings, now time.Time) *Desk {
	return &Desk{log: log, engines: engines, controller: windows.New(set, uint64(now.UnixNano()))}
}

// Took takes what a step took.
func (d *Desk) Took(s engine.StepTime) {
	d.controller.Take(windows.Step{
		Session: s.Session, Run: s.Run, Rank: s.Rank, Bucket: windows.Bucket{Program: s.Program, Batch: s.Batch, KV: s.KV},
		Work: windows.Work(s.Tokens, s.Context), Took: time.Duration(s.NS), Device: s.Device, At: time.Unix(0, int64(s.At)), Traced: s.Traced, Cut: s.Cut,
	})
}

// Look orders the windows that are due.
func (d *Desk) Look(now time.Time) {
	var ranks []windows.Rank
	for _, s := range d.engines.Standings() {
		if s.Windows != nil {
			ranks = append(ranks, rankOf(&s))
		}
	}
	for _, o := range d.controller.Tick(now, ranks) {
		d.send(o)
	}
}

func rankOf(s *fleet.Standing) windows.Rank {
	w := s.Windows
	return windows.Rank{
		Session: s.Session, Run: cmp.Or(s.Run, s.Claims), Ready: s.Connected && w.State != engine.StateStuck && s.Mode == "windows",
		Windows: w.Had, Left: w.Left, Held: time.Duration(w.Held),
	}
}

// send tells engines of a window, all at once: one that does not read keeps no other waiting. It returns how many took it.
func (d *Desk) send(o windows.Order) (told int) {
	frame := wire.AppendControl(nil, wire.CommandWindow, uint64(o.Start.UnixNano()), uint64(o.End.UnixNano()), o.ID)
	var mu sync.Mutex
	var telling sync.WaitGroup
	for _, session := range o.Sessions {
		telling.Go(func() {
			if d.engines.Command(session, frame) {
				mu.Lock()
				defer mu.Unlock()
				told++
			}
		})
	}
	telling.Wait()
	d.log.Debug("a window is ordered", zap.String("run", o.Run), zap.String("why", o.Why), zap.Uint64("window", o.ID),
		zap.Time("start", o.Start), zap.Duration("length", o.End.Sub(o.Start)), zap.Int("engines", told))
	if o.Why != windows.ByTheClock {
		d.log.Info("a window opens", zap.String("run", o.Run), zap.String("why", o.Why), zap.Int("engines", told))
	}
	return told
}

// ErrNone says that no engine can open a window.
var ErrNone = errors.New("no connected engine is in the mode windows (KERNHES_SOFTWARE=windows)")

// A Window is one that was asked for.
type Window struct {
	Run        string
	ID         uint64
	Engines    int // that took the order
	Start, End time.Time
	Why        string
	Before     bool // it was ordered before
}

// Open opens a window on all ranks of a run, or of each run if the name is empty; a name is all its starts. A run whose window is
// open keeps it, longer if need be.
func (d *Desk) Open(now time.Time, run string, length time.Duration, why string) ([]Window, error) {
	of := map[string][]windows.Rank{}
	for _, s := range d.engines.Standings() {
		if s.Windows == nil {
			continue
		}
		if r := rankOf(&s); r.Ready && runname.Is(r.Run, run) {
			of[r.Run] = append(of[r.Run], r)
		}
	}
	var opened []Window
	for name, ranks := range of {
		o, fresh := d.controller.Open(now, name, ranks, length, why)
		w := Window{Run: name, ID: o.ID, Engines: len(o.Sessions), Start: o.Start, End: o.End, Why: o.Why, Before: !fresh}
		if fresh {
			w.Engines = d.send(o)
		}
		opened = append(opened, w)
	}
	if len(opened) == 0 {
		return nil, ErrNone
	}
	return opened, nil
}

// Annotate adds what windows cost to the reports of their processes.
func (d *Desk) Annotate(sessions []fleet.Session) []fleet.Session {
	for i := range sessions {
		for k := range sessions[i].Reports {
			r := &sessions[i].Reports[k]
			if r.Windows == nil {
				continue
			}
			s := d.controller.State(cmp.Or(r.Info["run"], r.Claims))
			r.Windows.Slowdown, r.Windows.Share, r.Windows.Measured = s.Cost.Slowdown, s.Cost.Share, s.Cost.Measured
			r.Windows.Last, r.Windows.LastStart, r.Windows.Closer = s.Last.Why, s.Last.Start, s.Closer
		}
	}
	return sessions
}
