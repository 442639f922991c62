package sim

import (
	"context"
	"time"

	"github.com/kernhes/kernhes/internal/sim/program"
	"github.com/kernhes/kernhes/internal/sim/truth"
)

const downtime = 2 * time.Second // between two runs

// A RunLine is the first line of the truth of a run.
type RunLine struct {
	Kind   string           `json:"kind"` // run
	Run    string           `json:"run"`
	Layout string           `json:"layout"`
	Ranks  int              `json:"ranks"`
	Seed   uint64           `json:"seed"`
	Start  int64            `json:"start_ns"`
	Groups map[string][]int `json:"groups"` // ranks of each group: ep:0, tp:1, pp:3
}

// events writes what the truth says beforehand: the run, and the schedule.
func (s *sim) events() error {
	line := RunLine{Kind: "run", Run: s.run, Layout: s.Layout.Name, Ranks: s.Layout.Ranks(), Seed: s.Seed, Start: max(s.zero, s.until), Groups: map[string][]int{}}
	for _, m := range []program.Meeting{program.Experts, program.Tensor, program.Stages} {
		for r := range s.Layout.Ranks() {
			g := s.Layout.Group(m, r)
			if members := s.Layout.Members(m, g); len(members) > 1 {
				line.Groups[truth.Group(m, g)] = members
			}
		}
	}
	if err := s.truth.Write(line); err != nil || s.runs > 1 {
		return err
	}
	for _, e := range s.Schedule {
		l := truth.EventLine{Kind: "event", Run: s.run, Event: e.Name, Fault: e.Fault, Rank: e.Of, From: s.zero + int64(e.At), Amount: e.Size, Unit: e.Unit, Layer: e.Layer}
		if e.For > 0 {
			l.To = l.From + int64(e.For)
		}
		switch e.Name {
		case "foreign_gemm", "lost_records":
			l.Every = int64(e.Every)
		case "slow_kernel":
			l.Match = e.Match
		}
		if err := s.truth.Write(l); err != nil {
			return err
		}
	}
	return nil
}

// outages has the collector be out of reach where the schedule says so.
func (s *sim) outages(t int64) {
	down := len(s.Schedule.On("outage", -1, time.Duration(t-s.zero))) > 0
	for _, e := range s.engines {
		if e.link != nil && e.ended == "bye" {
			e.link.Lock()
			e.link.Down(down)
			e.link.Unlock()
		}
	}
}

// restarts reports whether the schedule restarts the engine now.
func (s *sim) restarts(now int64) bool {
	for _, e := range s.Schedule {
		if e.Name == "restart" && e.Once(-1, time.Duration(now-s.zero)) {
			return true
		}
	}
	return false
}

// restart ends the run and begins another.
func (s *sim) restart(ctx context.Context, now int64) error {
	s.until = now
	if err := s.finish(); err != nil {
		return err
	}
	s.until = now + int64(downtime)/program.Tick*program.Tick
	s.seq = 0
	s.pace(ctx, s.until)
	s.begin()
	return s.events()
}
