// Package watch turns reports and final steps into history.
package watch

import (
	"context"
	"time"

	"github.com/kernhes/kernhes/internal/waitsums"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/history"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Feed is a sink of final steps. It is safe for concurrent use.
type Feed struct {
	History *history.History
	next    engine.Sink // nil: none
}

// New returns a Feed of an empty history. It hands final steps on to next, unless that is nil.
func New(next engine.Sink) *Feed { return &Feed{history.New(), next} }

// Poll reads the reports of all live sessions once a tick, until the context ends.
func (f *Feed) Poll(ctx context.Context, live func(time.Time) []fleet.Session) {
	ticker := time.NewTicker(history.Tick)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			f.Observe(now, live(now))
		case <-ctx.Done():
			return
		}
	}
}

// Observe takes what all live sessions say now.
func (f *Feed) Observe(now time.Time, sessions []fleet.Session) {
	var readings []history.Reading
	for i := range sessions {
		for k := range sessions[i].Reports {
			if r := &sessions[i].Reports[k]; !r.Guessed && !r.Unplaced {
				readings = append(readings, reading(r, r.Down))
			}
		}
	}
	if waits, ok := waitsums.All(); ok {
		join(readings, waits)
	}
	f.History.Observe(now, readings)
}

// join adds what the connector kernwaits has found of the ranks.
func join(readings []history.Reading, waits map[waitsums.Key]waitsums.Sum) {
	at := map[history.Key]*history.Reading{}
	for i := range readings {
		at[readings[i].Key] = &readings[i]
		readings[i].Waits = map[string]history.Wait{}
	}
	for k, w := range waits {
		if r := at[history.Key{Run: k.Run, Rank: k.Rank}]; r != nil {
			r.Waits[k.Cause] = history.Wait{Wait: w.Wait, Blame: w.Blame}
			r.Counters.Wait += w.Wait
			r.Counters.Blame += w.Blame
		}
	}
}

// End takes the last reports of a session that has ended; gone: without saying so.
func (f *Feed) End(now time.Time, last []engine.Report, gone bool) {
	down := fleet.Ended
	if gone {
		down = fleet.Gone
	}
	var readings []history.Reading
	for i := range last {
		if r := &last[i]; !r.Guessed && !r.Unplaced {
			readings = append(readings, reading(r, down))
		}
	}
	f.History.Observe(now, readings)
}

// Take takes a final step.
func (f *Feed) Take(s engine.FinalStep) (id engine.SpanID, traced bool) {
	if f.next != nil {
		id, traced = f.next.Take(s)
	}
	f.History.Take(time.Now(), &history.Step{
		Key: history.Key{Run: s.Source.Run(), Rank: s.Source.Rank}, Set: history.Set{Program: s.Program, Batch: s.BatchBucket, KV: s.KVBucket},
		Seq: s.Seq, Text: s.Text, Start: s.First, End: s.Last, Compute: s.Compute, Comm: s.ExposedComm, Overlap: s.Overlap, Idle: s.Idle,
		Foreign: s.Foreign, Kernels: len(s.Spans), Reason: s.Reason,
	}, func() []history.Kernel { return kernels(&s) })
	return id, traced
}

// kernels are those of a step, in order of launch.
func kernels(s *engine.FinalStep) []history.Kernel {
	if s.Shape == nil {
		return nil
	}
	all := make([]history.Kernel, len(s.Spans))
	for i, one := range s.Spans {
		p := &s.Shape.Positions[i]
		all[i] = history.Kernel{
			Call: p.Call, Name: p.Name, Comm: one.Class() == span.Comm, Stream: p.Stream, Start: one.Start, Dur: one.End() - one.Start,
		}
	}
	return all
}

func reading(r *engine.Report, down string) history.Reading {
	n := history.Reading{
		Key: history.Key{Run: r.Info["run"], Rank: r.Rank}, PID: r.Info["pid"], Host: r.Info["host"], GPU: r.GPU(), Model: r.Info["model"],
		Engine: r.Info["engine"], Mode: r.Mode, Tracing: r.Tracing, Down: down, LastStep: r.LastStepNS,
		Counters: history.Counters{
			Compute: r.ComputeNS, Comm: r.CommNS, Idle: r.IdleNS, Unknown: r.UnknownNS, Untraced: r.UntracedNS(), Overlap: r.OverlapNS, Copy: r.CopyNS,
			Cost: r.CUPTINS, Steps: r.Complete, Incomplete: total(r.Incomplete), Dropped: total(r.Dropped),
		},
		Sets: make(map[history.Set]history.Sums, len(r.Series)),
	}
	for i := range r.Series {
		s := &r.Series[i]
		n.Counters.Foreign += s.ForeignNS
		n.Sets[history.Set{Program: s.Program, Batch: s.Batch, KV: s.KV}] = history.Sums{Steps: s.Steps, Wall: s.WallNS, Compute: s.ComputeNS}
	}
	return n
}

func total(counts map[string]uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}
