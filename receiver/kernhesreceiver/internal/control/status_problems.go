package control

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
)

// ranges says of a session which of its NVTX ranges are open, and which texts match no pattern.
func (s *sessionStatus) ranges(r *engine.RangesReport) {
	for _, l := range r.Leaks {
		s.OpenRanges = append(s.OpenRanges, openStatus{l.Thread, clean(l.Domain), clean(l.Text), l.Open, l.Leaking})
	}
	for _, u := range r.Unmatched {
		s.Unmatched = append(s.Unmatched, unmatchedStatus{
			clean(u.Text), clean(u.Domain), u.Ranges, u.Kernels, secondsOf(u.NS), clean(patternFor(&u)),
		})
	}
	c := &r.Counts
	for fault, n := range map[string]uint64{"leaked": c.Leaked, "underflow": c.Underflow, "resynced": c.Resynced} {
		if n > 0 {
			s.RangeFaults[fault] = n
		}
	}
}

// patternFor is a pattern, as YAML, that makes steps of the ranges with a text.
func patternFor(u *ranges.Unmatched) string {
	if preset := ranges.PresetFor(u.Example); preset != "" {
		return "{preset: " + preset + "}"
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	domain := ""
	if u.Domain != "" {
		domain = "domain: " + quote(u.Domain) + ", "
	}
	match := strings.ReplaceAll(regexp.QuoteMeta(u.Text), "#", `\d+`)
	return "{" + domain + "match: " + quote("^"+match+"$") + ", program: step}"
}

// someKernels is how many kernels of a session without a step are a problem: engines launch some before their first one.
const someKernels = 200

// noStep says that a session has kernels and no step, and what to do; "" if that is not so.
func (s *sessionStatus) noStep() string {
	kernels := uint64(0)
	for i := range s.Ranks {
		kernels += s.Ranks[i].Kernels
	}
	if s.stepRanges > 0 || kernels < someKernels {
		return ""
	}
	const none = "%d kernels and no step so far: "
	if len(s.Unmatched) == 0 {
		return fmt.Sprintf(none+`no NVTX range was open where they were launched. docs/engines.md has the switch of each engine; or paste into the engine: `+
			`with kernhes.step("decode"): …`, kernels)
	}
	best := &s.Unmatched[0]
	if i := slices.IndexFunc(s.Unmatched, func(u unmatchedStatus) bool { return strings.Contains(u.Paste, "preset:") }); i >= 0 {
		best = &s.Unmatched[i]
	}
	domain := ""
	if best.Domain != "" {
		domain = " of domain " + best.Domain
	}
	return fmt.Sprintf(none+"no NVTX range matches a pattern. %s of kernel time lie in ranges %q%s. Paste into the settings of the receiver: patterns: [%s]",
		kernels, short(best.Seconds), best.Text, domain, best.Paste)
}

// problems are what a person should look at; refused says why files of the user are, quiet are the runs without communication.
func problems(s *Status, refused []string, quiet map[string]bool) []string {
	list := []string{}
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	type claim struct {
		name string
		rank int64
	}
	claims := map[claim][]string{} // runs of connected sessions
	for i := range s.Sessions {
		p := &s.Sessions[i]
		for _, r := range p.Ranks {
			for _, identity := range slices.Sorted(maps.Keys(r.Residue)) {
				if n := r.Residue[identity]; n != 0 {
					say("rank %d of run %s: the books do not add up: %s by %d", r.Rank, p.Run, identity, n)
				}
			}
			if p.Connected && p.Run != "" && !p.guessed && r.Rank != engine.NoRank {
				one := claim{p.claims, r.Rank}
				claims[one] = append(claims[one], p.Run)
			}
		}
	}
	if d := s.Delivery; d != nil {
		if d.Since != nil {
			say("the logs pipeline (the archive) or the dump takes nothing since %s, so nothing is acknowledged: %s", d.Since.UTC().Format("15:04:05 UTC"), d.Error)
		}
		if d.Refused > 0 {
			say("the logs pipeline (the archive) refused %d records for good: %s", d.Refused, d.Error)
		}
	}
	for _, one := range slices.SortedFunc(maps.Keys(claims), func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.rank, b.rank))
	}) {
		if runs := claims[one]; len(runs) > 1 {
			say("rank %d of run %s: %d processes claim to be it, and are kept apart as runs %s", one.rank, runs[0], len(runs), strings.Join(runs, ", "))
		}
	}
	for _, why := range refused {
		say("%s", clean(why))
	}
	for i := range s.Sessions {
		s.Sessions[i].problems(say)
	}
	for _, run := range slices.Sorted(maps.Keys(quiet)) {
		say("run %s: several ranks, and no communication was ever seen: its kernels may have names that no rule knows", clean(run))
	}
	return list
}

// problems says what is wrong with a session.
func (s *sessionStatus) problems(say func(format string, args ...any)) {
	name := fmt.Sprintf("rank %d of run %s", s.firstRank(), s.Run)
	switch {
	case !s.Connected:
		say("%s: process %s is not connected", name, s.PID)
	case s.Down == fleet.Silent:
		say("%s: process %s is silent for %s: it is stopped, or cut off", name, s.PID, short(*s.HeardAge))
	case s.Down == fleet.Hung:
		say("%s: process %s hangs: it does nothing, and kernels that it launched do not come", name, s.PID)
	}
	if s.Mode == "off" {
		reason := s.ModeReason
		if reason == "" {
			reason = "as asked"
		}
		say("%s: nothing is traced: %s", name, reason)
	}
	if w := s.Windows; w != nil && w.State == engine.StateStuck {
		say("%s: the shim cannot leave CUPTI, and no window opens: %s", name, s.ModeReason)
	}
	if w := s.Windows; w != nil && w.Left < fewWindows && w.Outcomes["complete"] > 0 {
		say("%s: %d windows are left (KERNHES_WINDOWS), so they become rare", name, w.Left)
	}
	s.stepProblems(name, say)
	if why := s.noStep(); why != "" {
		say("%s: %s", name, why)
	}
	for i := range s.OpenRanges {
		if o := &s.OpenRanges[i]; o.Leaking {
			domain := "the default domain"
			if o.Domain != "" {
				domain = "domain " + o.Domain
			}
			say("%s: thread %d leaks NVTX ranges in %s: %d are open, most of them %q: they are pushed and never popped", name, o.Thread, domain, o.Open, o.Text)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(s.Lost)) {
		if n := s.Lost[reason]; n > 0 {
			say("%s: %d records lost: %s", name, n, reason)
		}
	}
	if !s.Readable {
		say("%s: CUPTI does not say how many records it dropped", name)
	}
}

// fewWindows is how many windows that a process may still open are few: from a thousand on they are spaced.
const fewWindows = 1000
