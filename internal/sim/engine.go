package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kernhes/kernhes/internal/sim/clock"
	"github.com/kernhes/kernhes/internal/sim/fleet"
	"github.com/kernhes/kernhes/internal/sim/link"
	"github.com/kernhes/kernhes/internal/sim/program"
	"github.com/kernhes/kernhes/internal/sim/shim"
	"github.com/kernhes/kernhes/internal/sim/truth"
)

// stall is how long an engine that is not paced waits for an acknowledgement before it drops
// frames.
const stall = 30 * time.Second

// An engine is the process of one rank: its shim, its connection and its truth.
type engine struct {
	rank  int
	shim  *shim.Shim
	link  *link.Link // nil: frames are emitted elsewhere
	clock clock.Clock
	truth truth.Rank
	ended string
	done  sync.WaitGroup
	err   error // of the link
}

// begin starts a run on all ranks.
func (s *sim) begin() {
	s.runs++
	start := max(s.zero, s.until)
	set := &shim.Settings{Run: s.name(), Anonymous: s.Identity == NCCL, Host: s.Host, Layout: s.Layout, Seed: s.Seed, Start: start, Flush: s.Flush, Disorder: s.Disorder, Untraced: s.Untraced}
	s.run = set.Run
	if set.Anonymous {
		s.run = fmt.Sprintf("nccl-%016x", shim.Communicator(set, program.None, 0))
	}
	if s.Began != nil {
		s.Began(s.run)
	}
	links := &link.Settings{Endpoint: s.Endpoint, Bound: s.Bound, Wait: !s.Paced, Stall: stall, Cut: s.Cut}
	engines := make([]*engine, 0, s.Layout.Ranks())
	for r := range s.Layout.Ranks() {
		session := s.Seed<<32 ^ uint64(start) ^ uint64(r+1)<<56
		e := &engine{rank: r, ended: "bye", truth: truth.Rank{RankLine: truth.RankLine{Run: s.run, Rank: r, Session: fmt.Sprintf("%016x", session)}}}
		if !s.True {
			e.clock = clock.New(s.Seed, r)
		}
		engines = append(engines, e)
		if s.Emit != nil {
			e.shim = shim.New(set, r, session, s.Emit(r, session))
			continue
		}
		e.link = link.New(links)
		e.link.Lock()
		e.shim = shim.New(set, r, session, e.link.Emit)
		e.shim.Losses = e.link.Losses
		e.link.Attach(e.shim.Wire, e.shim.Hello)
		e.link.Unlock()
		e.done.Add(1)
		go func() {
			defer e.done.Done()
			e.err = e.link.Run()
		}()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engines = engines
}

// name is what the engine is told to call its run.
func (s *sim) name() string {
	if s.runs == 1 {
		return s.Run
	}
	return fmt.Sprintf("%s-%d", s.Run, s.runs)
}

// hurry has nobody wait for the collector any more.
func (s *sim) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.engines {
		if e.link != nil {
			e.link.Lock()
			e.link.Hurry()
			e.link.Unlock()
		}
	}
}

// with does something with the shim while no frame goes out of it.
func (e *engine) with(do func(*shim.Shim)) {
	if e.link != nil {
		e.link.Lock()
		defer e.link.Unlock()
	}
	do(e.shim)
}

// tell tells of a step, and returns the truth about it.
func (e *engine) tell(s *sim, st *fleet.Step) (line truth.StepLine) {
	offset := e.clock.Offset(st.Push)
	traced := !s.Untraced
	if s.Window > 0 {
		traced = time.Duration(st.Push-s.zero)%s.Every < s.Window
	}
	e.with(func(h *shim.Shim) {
		h.Trace(traced, st.Push)
		for _, f := range s.Schedule {
			if f.Name == "lost_records" && f.Again(e.rank, time.Duration(st.Push-s.zero)) {
				h.Lose(int(f.Size))
			}
		}
		h.Step(st, offset)
		line = e.truth.Step(st, offset, traced)
		line.Lost = h.Lost()
		e.truth.Lost += line.Lost
	})
	return line
}

// end ends all ranks, as they end, and waits until the collector has taken all.
func (s *sim) end(ctx context.Context) error {
	s.result.Ended = "bye"
	s.until = max(s.until, s.fleet.Ready())
	if !s.fleet.Alive() {
		s.hang(ctx)
	}
	return s.finish()
}

// hang lets heartbeats go on until the time is over; a process that died has none.
func (s *sim) hang(ctx context.Context) {
	for _, e := range s.engines {
		e.ended = "hang"
		if len(s.Schedule.On("die", e.rank, s.Duration)) > 0 {
			e.ended = "die"
			e.close()
		}
	}
	s.result.Ended = "hang"
	for t := max(s.until, s.fleet.Ready()); t < s.zero+int64(s.Duration) && ctx.Err() == nil; {
		t += int64(s.Flush)
		s.pace(ctx, t)
		for _, e := range s.engines {
			if e.ended == "hang" {
				e.with(func(h *shim.Shim) { h.Idle(t) })
			}
		}
		s.until = t
	}
}

// finish says BYE for all ranks that live, waits for acknowledgements, and writes the ranks' truth.
func (s *sim) finish() error {
	var errs []error
	for _, e := range s.engines {
		if e.ended == "bye" {
			e.with(func(h *shim.Shim) { h.Bye(s.until) })
		}
	}
	for _, e := range s.engines {
		if e.link != nil && e.ended == "bye" {
			e.link.Lock()
			if err := e.link.Wait(s.Patience); err != nil {
				errs = append(errs, fmt.Errorf("rank %d: %w", e.rank, err))
			}
			e.link.Unlock()
		}
		line := e.truth.Close()
		line.Ended = e.ended
		if e.link != nil {
			e.link.Lock()
			lost := e.link.Lost()
			e.link.Unlock()
			line.DroppedKernels, line.DroppedCopies, line.DroppedEvents = lost.Kernels, lost.Copies, lost.Events
		}
		errs = append(errs, s.truth.Write(line))
		s.result.Kernels += e.shim.Wire.Kernels
		s.result.Copies += e.shim.Wire.Copies
		s.result.Dropped += line.DroppedKernels + line.DroppedCopies + line.DroppedEvents
		e.close()
		if e.link != nil {
			s.result.Bytes += e.link.Sent
			s.result.Connections += e.link.Connects
			errs = append(errs, e.err)
		}
	}
	return errors.Join(errs...)
}

// close ends the connection without a word.
func (e *engine) close() {
	if e.link == nil {
		return
	}
	e.link.Lock()
	e.link.Close()
	e.link.Unlock()
	e.done.Wait()
}

func (s *sim) close() {
	for _, e := range s.engines {
		e.close()
	}
}
