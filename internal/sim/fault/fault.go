// Package fault says what goes wrong in a simulated fleet, and when; and what changes without being
// wrong.
package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Kind is one that a schedule may name.
type Kind struct {
	Name   string
	Fault  bool    // false: a change that is no fault
	Rank   bool    // it is of one rank, unless rank=all
	Amount float64 // by default
	Unit   string  // of the amount
	Text   string
}

// Kinds are all kinds of faults and changes, as help lists them.
var Kinds = []Kind{
	{"foreign_gemm", true, true, 3, "ms", "a GEMM outside any step runs on the rank's GPU, once in every=1s"},
	{"slow_clocks", true, true, 20, "%", "all kernels of the rank take longer"},
	{"slow_kernel", true, false, 25, "%", "kernels with match=attention in op or call take longer"},
	{"slow_link", true, true, 2, "times", "the transfer in each meeting of the rank takes longer"},
	{"hot_expert", true, true, 1.6, "times", "the rank has more load in layer=N, by default in all layers"},
	{"skewed_contexts", true, true, 4, "times", "requests of the rank have longer contexts"},
	{"host_gaps", true, true, 2, "ms", "the rank launches each step later"},
	{"stall", true, true, 80, "ms", "once, the rank launches late: it compiles or loads code"},
	{"rearrangement", true, false, 40, "ms", "once, experts move between ranks; their loads change"},
	{"other_graph", true, true, 20, "kernels", "the rank's graph has more kernels than its peers' graphs"},
	{"skipped_collective", true, true, 0, "", "once, the rank skips a meeting, and all ranks wait for ever"},
	{"hang", true, true, 0, "", "a kernel of the rank never ends; its process lives"},
	{"die", true, true, 0, "", "the process of the rank ends without BYE"},
	{"lost_records", true, true, 500, "records", "CUPTI drops records of the rank, once in every=1s"},
	{"outage", true, false, 0, "", "the collector dies for=5s: connections end, and no rank can reconnect"},
	{"longer_prompts", false, false, 2, "times", "prompts are longer"},
	{"bigger_batches", false, false, 2, "times", "more requests are computed at once"},
	{"more_requests", false, false, 1.5, "times", "requests come more often"},
	{"fewer_requests", false, false, 2, "times", "requests come less often"},
	{"new_program", false, false, 0, "", "prompts and running requests share a batch, as program mixed"},
	{"restart", false, false, 0, "", "all ranks end with BYE, and start as another run 2 s later"},
}

// An Event is a fault or change at a time.
type Event struct {
	Kind
	Of    int // rank; -1: all
	At    time.Duration
	For   time.Duration // 0: up to the end
	Every time.Duration
	Size  float64
	Match string
	Layer int         // -1: all
	hits  map[int]int // by rank
}

// A Schedule is all events of a run.
type Schedule []*Event

// Parse reads "KIND:key=value,…": rank, at, for, every, amount, match, layer.
func Parse(text string) (*Event, error) {
	name, pairs, _ := strings.Cut(text, ":")
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("fault %q: there is no %q", text, name)
	}
	e := &Event{Kind: Kinds[i], Of: -1, Size: Kinds[i].Amount, Layer: -1, Every: time.Second, Match: "attention", hits: map[int]int{}}
	if e.Rank {
		e.Of = 0
	}
	if name == "outage" {
		e.For = 5 * time.Second
	}
	for _, pair := range strings.Split(pairs, ",") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		if err := e.set(key, value); err != nil {
			return nil, fmt.Errorf("fault %q: %s=%s: %w", text, key, value, err)
		}
	}
	return e, nil
}

func (e *Event) set(key, value string) (err error) {
	switch key {
	case "rank":
		if value == "all" {
			e.Of = -1
			return nil
		}
		e.Of, err = natural(value)
	case "layer":
		e.Layer, err = natural(value)
	case "at":
		e.At, err = duration(value)
	case "for":
		e.For, err = duration(value)
	case "every":
		if e.Every, err = duration(value); err == nil && e.Every < time.Millisecond {
			err = fmt.Errorf("want at least 1ms")
		}
	case "amount":
		if e.Size, err = strconv.ParseFloat(value, 64); err == nil && !(e.Size >= 0 && e.Size <= 1e6) {
			err = fmt.Errorf("want 0 to 1000000")
		}
	case "match":
		e.Match = value
	default:
		err = fmt.Errorf("want rank, at, for, every, amount, match or layer")
	}
	return err
}

func natural(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("want a number from 0")
	}
	return n, nil
}

func duration(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration, as 10s")
	}
	return d, nil
}

// On reports whether the event is on for a rank at a time since the run's start.
func (e *Event) On(rank int, at time.Duration) bool {
	return (e.Of < 0 || e.Of == rank) && at >= e.At && (e.For == 0 || at < e.At+e.For)
}

// Once reports, one time for each rank, that the event has begun.
func (e *Event) Once(rank int, at time.Duration) bool {
	if !e.On(rank, at) || e.hits[rank] > 0 {
		return false
	}
	e.hits[rank]++
	return true
}

// Again reports that another period of the event has begun.
func (e *Event) Again(rank int, at time.Duration) bool {
	if !e.On(rank, at) || time.Duration(e.hits[rank])*e.Every > at-e.At {
		return false
	}
	e.hits[rank]++
	return true
}

// On are the events of a kind that are on.
func (s Schedule) On(kind string, rank int, at time.Duration) (on []*Event) {
	for _, e := range s {
		if e.Name == kind && e.On(rank, at) {
			on = append(on, e)
		}
	}
	return on
}

// Factor is the product of the amounts of the events of a kind that are on; 1 if there is none.
func (s Schedule) Factor(kind string, rank int, at time.Duration) float64 {
	f := 1.0
	for _, e := range s {
		if e.Name == kind && e.On(rank, at) {
			f *= e.Size
		}
	}
	return f
}
