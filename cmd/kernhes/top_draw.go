package main

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/kernhes/kernhes/internal/wire"
)

// A liveView is the part of GET /live that a terminal shows.
type liveView struct {
	Now      time.Time
	Verdicts []struct{ Alert, Text string }
	Runs     []liveRun
}

type liveRun struct {
	Run, Model, Engine string
	Ranks              []liveRank
	Waits              []struct {
		Cause string
		Share float64
	}
	Steps []struct {
		Program, Batch, KV string
		Steps              uint64
		P50, P99           float64
	}
	Calls []struct {
		Program, Call  string
		Seconds, Ratio float64
		Slowest        int64
	} `json:"slowest_calls"`
}

type liveRank struct {
	Rank       int64
	Mode, Down string
	Tracing    bool
	StepAge    *float64  `json:"last_step_age"`
	Last       liveShare `json:"last_minute"`
	Mean       float64   `json:"mean_step_seconds"`
	Ratio      float64   `json:"compute_over_fastest"`
	Foreign    float64   `json:"foreign_share"`
	Wait       float64   `json:"wait_share"`
	Blame      float64   `json:"blame_share"`
	Cost       float64   `json:"cost_share"`
	Dropped    uint64
}

type liveShare struct{ Compute, Comm, Idle, Unknown float64 }

// Colours of the kinds of time, as on the live page.
var (
	computeColour = lipgloss.NewStyle().Foreground(lipgloss.Color("#5b9bff"))
	commColour    = lipgloss.NewStyle().Foreground(lipgloss.Color("#f0a543"))
	faintColour   = lipgloss.NewStyle().Foreground(lipgloss.Color("#8a949e"))
	unknownColour = lipgloss.NewStyle().Foreground(lipgloss.Color("#cf8be0"))
	badColour     = lipgloss.NewStyle().Foreground(lipgloss.Color("#ff6b5e")).Bold(true)
	goodColour    = lipgloss.NewStyle().Foreground(lipgloss.Color("#3fb760"))
)

// maxVerdicts is how many lines of what is wrong are shown.
const maxVerdicts = 5

// drawTop draws what the collector says of one run into width columns and height lines; height 0: all lines. Without colour the
// bars differ by their characters.
func drawTop(v liveView, selected, width, height int, colour bool) string {
	paint := func(s lipgloss.Style, text string) string {
		if !colour {
			return text
		}
		return s.Render(text)
	}
	var lines []string
	add := func(text string) { lines = append(lines, text) }
	add("kernhes  " + v.Now.Format("15:04:05") + paint(faintColour, fmt.Sprintf("  run %d of %d (up, down)  q ends", min(selected+1, len(v.Runs)), len(v.Runs))))
	for i, one := range v.Verdicts {
		if i == maxVerdicts {
			add(paint(badColour, fmt.Sprintf("and %d more", len(v.Verdicts)-i)))
			break
		}
		add(paint(badColour, fit(one.Alert+" "+plain(one.Text), width)))
	}
	switch {
	case len(v.Runs) == 0:
		add("No engine yet.")
	case len(v.Verdicts) == 0:
		add(paint(goodColour, "Nothing is wrong."))
	}
	if selected < len(v.Runs) {
		lines = append(lines, drawRun(&v.Runs[selected], width, paint)...)
	}
	if height > 0 && len(lines) > height {
		lines = lines[:height]
	}
	return strings.Join(lines, "\n") + "\n"
}

func drawRun(r *liveRun, width int, paint func(lipgloss.Style, string) string) (lines []string) {
	lines = append(lines, "", fit(fmt.Sprintf("run %s  %s  %s  %d ranks", plain(r.Run), plain(r.Model), plain(r.Engine), len(r.Ranks)), width))
	bar := max(10, min(40, width-86))
	lines = append(lines, paint(faintColour, fmt.Sprintf("%4s %-10s %-*s %7s %6s %6s %9s %8s %7s %6s %7s %6s %9s",
		"rank", "state", bar, "last minute", "compute", "comm", "idle", "mean step", "fastest", "foreign", "waits", "blame", "lost", "last step")))
	for i := range r.Ranks {
		k := &r.Ranks[i]
		state := k.Mode
		if k.Down != "" {
			state = k.Down
		} else if !k.Tracing {
			state = "not traced"
		}
		age := "never"
		if k.StepAge != nil {
			age = short(*k.StepAge)
		}
		ratio := fmt.Sprintf("%8.2f", k.Ratio)
		if k.Ratio > 1.15 {
			ratio = paint(badColour, ratio)
		}
		lines = append(lines, fmt.Sprintf("%4d %-10s %s %6.1f%% %5.1f%% %5.1f%% %9s %s %6.1f%% %5.1f%% %6.1f%% %6d %9s",
			k.Rank, fit(plain(state), 10), drawBar(k.Last, bar, paint), 100*k.Last.Compute, 100*k.Last.Comm, 100*k.Last.Idle, short(k.Mean), ratio,
			100*k.Foreign, 100*k.Wait, 100*k.Blame, k.Dropped, age))
	}
	if len(r.Waits) > 0 {
		text := "why ranks wait:"
		for _, w := range r.Waits {
			text += fmt.Sprintf(" %s %.1f%%", w.Cause, 100*w.Share)
		}
		lines = append(lines, "", fit(text, width))
	}
	lines = append(lines, "", paint(faintColour, fmt.Sprintf("%-16s %8s %8s %8s %9s %9s", "program", "batch", "kv", "steps", "p50", "p99")))
	for _, s := range r.Steps[:min(len(r.Steps), 6)] {
		lines = append(lines, fmt.Sprintf("%-16s %8s %8s %8d %9s %9s", fit(plain(s.Program), 16), s.Batch, s.KV, s.Steps, short(s.P50), short(s.P99)))
	}
	lines = append(lines, "", paint(faintColour, fmt.Sprintf("%-50s %9s %8s %8s", "slowest calls", "a step", "rank", "ratio")))
	for _, c := range r.Calls[:min(len(r.Calls), 6)] {
		lines = append(lines, fmt.Sprintf("%-50s %9s %8d %8.2f", fit(plain(c.Program+" "+c.Call), 50), short(c.Seconds), c.Slowest, c.Ratio))
	}
	return lines
}

// drawBar is a share of time as so many cells.
func drawBar(s liveShare, cells int, paint func(lipgloss.Style, string) string) string {
	var b strings.Builder
	used, sum := 0, 0.0
	for _, part := range []struct {
		share  float64
		cell   string
		colour lipgloss.Style
	}{{s.Compute, "#", computeColour}, {s.Comm, "=", commColour}, {s.Idle, ".", faintColour}, {s.Unknown, "?", unknownColour}} {
		sum += part.share
		n := min(int(sum*float64(cells)+0.5), cells) - used
		b.WriteString(paint(part.colour, strings.Repeat(part.cell, max(n, 0))))
		used += max(n, 0)
	}
	return b.String() + strings.Repeat(" ", cells-used)
}

// short is seconds with three digits.
func short(s float64) string {
	switch {
	case s == 0:
		return "-"
	case s < 1e-3:
		return fmt.Sprintf("%.3gus", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.3gms", s*1e3)
	case s < 1000:
		return fmt.Sprintf("%.3gs", s)
	}
	return fmt.Sprintf("%.0fs", s)
}

// plain takes what a terminal would act on out of a text of an engine.
func plain(s string) string {
	return strings.ReplaceAll(wire.Text(strings.ToValidUTF8(s, "\uFFFD")), "\uFFFD", "?")
}

// fit cuts a text at so many characters.
func fit(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(0, width-1)]) + "~"
	}
	return s
}
