package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kernhes/kernhes/internal/sim/fleet"
	"github.com/kernhes/kernhes/internal/sim/load"
	"github.com/kernhes/kernhes/internal/sim/program"
	"github.com/kernhes/kernhes/internal/sim/shim"
	"github.com/kernhes/kernhes/internal/sim/truth"
)

// A Result says how much was simulated.
type Result struct {
	Steps     int // of all ranks
	Kernels   uint64
	Copies    uint64
	Bytes     uint64 // that were sent
	Dropped   uint64 // kernels, copies and events that the collector did not acknowledge in time
	Simulated time.Duration
	Took      time.Duration
	Ended     string // bye or hang

	Connections int
}

// A sim is one simulation under way.
type sim struct {
	Config
	zero     int64 // true ns at which it begins
	fleet    *fleet.Fleet
	server   *load.Server
	mu       sync.Mutex // held where engines change, and where another goroutine looks at them
	engines  []*engine
	programs map[programKey]*program.Program
	truth    *truth.Writer
	seq      uint64
	runs     int
	run      string // name of the run under way
	until    int64  // true ns up to which all has been told
	result   Result
}

type programKey struct {
	rank  int
	name  string
	extra int
}

// Run simulates until the time is over, the steps are done, or the context is.
func Run(ctx context.Context, c Config) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	began := time.Now()
	if c.Start.IsZero() {
		c.Start = began
		if !c.Paced {
			c.Start = began.Add(-c.Duration)
		}
	}
	s := &sim{Config: c, zero: c.Start.UnixNano() / program.Tick * program.Tick, programs: map[programKey]*program.Program{}}
	if c.Truth != nil {
		s.truth = truth.NewWriter(c.Truth)
	}
	s.fleet = fleet.New(c.Layout, c.Seed, s.zero)
	s.fleet.Schedule, s.fleet.Jitter = c.Schedule, c.Jitter
	s.server = load.New(c.Load, c.Schedule, c.Seed, c.Layout.Data, func(replica int) int { return replica * c.Layout.Tensor })
	s.begin()
	defer s.close()
	defer context.AfterFunc(ctx, s.hurry)()
	if err := s.events(); err != nil {
		return s.result, err
	}
	for ctx.Err() == nil && s.fleet.Alive() && (s.Steps == 0 || int(s.seq) < s.Steps) {
		more, err := s.step(ctx)
		if err != nil {
			return s.result, err
		}
		if !more {
			break
		}
	}
	err := s.end(ctx)
	s.result.Took = time.Since(began)
	s.result.Simulated = time.Duration(s.until - s.zero)
	return s.result, err
}

// step runs one step of all ranks and tells of it; false where the time is over.
func (s *sim) step(ctx context.Context) (bool, error) {
	now := max(s.fleet.First(), s.until)
	if s.restarts(now) {
		return true, s.restart(ctx, now)
	}
	at := time.Duration(now - s.zero)
	if at >= s.Duration {
		return false, nil
	}
	batches, next := s.server.Next(at)
	if batches == nil {
		s.idle(ctx, s.zero+int64(min(next, s.Duration))+program.Tick)
		return true, nil
	}
	jobs := make([]fleet.Job, s.Layout.Ranks())
	for r := range jobs {
		b := batches[s.Layout.Replica(r)]
		jobs[r] = fleet.Job{Rank: r, Program: s.program(r, b, at), Batch: b, After: s.until}
	}
	steps, meetings := s.fleet.Run(s.seq, jobs)
	s.server.Done()
	s.seq++
	return true, s.tell(ctx, steps, meetings)
}

// program is what a rank launches for a batch.
func (s *sim) program(rank int, b program.Batch, at time.Duration) *program.Program {
	key := programKey{rank: rank, name: b.Program}
	if program.Graph(b.Program) {
		for _, e := range s.Schedule.On("other_graph", rank, at) {
			key.extra += int(e.Size)
		}
	}
	p := s.programs[key]
	if p == nil {
		p = program.Flash(s.Layout, rank, b.Program)
		for i := range key.extra {
			p.Kernels = append(p.Kernels, program.Kernel{Call: fmt.Sprintf("decode.extra.%d", i), Op: "dsv41_extra", Name: "dsv41_extra_kernel",
				Cost: program.Cost{Fixed: 3000}, Grid: [3]uint32{8, 1, 1}, Block: [3]uint32{128, 1, 1}})
		}
		s.programs[key] = p
	}
	return p
}

// tell tells of steps on the wire, and writes the truth.
func (s *sim) tell(ctx context.Context, steps []*fleet.Step, meetings []*fleet.Meeting) error {
	var end int64
	for _, st := range steps {
		end = max(end, st.Pop)
		if len(st.Spans) > 0 {
			end = max(end, st.End())
		}
	}
	s.pace(ctx, end)
	for r, st := range steps {
		line := s.engines[r].tell(s, st)
		s.result.Steps++
		if err := s.truth.Write(line); err != nil {
			return err
		}
	}
	if s.Layout.Stages == 1 { // else stages overlap: none waits for the last rank of the step before
		s.until = end
	}
	if s.Waits && s.truth != nil {
		for _, m := range meetings {
			if err := s.truth.Write(truth.Wait(s.run, m)); err != nil {
				return err
			}
		}
	}
	return nil
}

// idle lets time pass without a step.
func (s *sim) idle(ctx context.Context, t int64) {
	s.pace(ctx, t)
	for _, e := range s.engines {
		e.with(func(h *shim.Shim) { h.Idle(t) })
	}
	s.until = t
}

// pace waits until real time has come as far as simulated time.
func (s *sim) pace(ctx context.Context, t int64) {
	s.outages(t)
	if !s.Paced {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(time.Unix(0, t))):
	}
}
