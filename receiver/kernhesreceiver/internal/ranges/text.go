package ranges

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Step is what a range's text says of the step that it is.
type Step struct {
	Text    string
	Program string
	Vars    string // pairs without seq, rank, kv and group, in name order: "seqs=1,tokens=512"
	Rank    string // empty: the text does not say
	Group   string
	Seq     int64 // valid if HasSeq
	Seqs    int64 // 0: not given; so are Tokens and KV
	Tokens  int64
	KV      int64
	HasSeq  bool
}

// A Pattern says which texts of which domain are steps.
type Pattern struct {
	Domain  string         // name of the NVTX domain; empty: the default domain
	Match   *regexp.Regexp // with named groups of Groups; nil: the built-in form "step:PROGRAM k=v,…"
	Program string         // of the steps that match, where the expression has no group that says it

	AnyDomain bool // Domain does not matter
	Fallback  bool // it counts only while no other step is open on the thread, and none by another pattern was seen lately
}

// Groups are the named groups that a pattern's expression may have. Program is the one it must have, unless the pattern
// itself names the program.
var Groups = []string{"program", "seq", "rank", "seqs", "tokens", "kv", "group"}

// Default is the pattern of a session whose configuration gives none.
var Default = []Pattern{{}}

// CheckGroups reports what is wrong with the named groups of a pattern that names this program, or none.
func CheckGroups(re *regexp.Regexp, named string) error {
	program := named != ""
	for _, name := range re.SubexpNames() {
		program = program || name == "program"
		if name != "" && !slices.Contains(Groups, name) {
			return fmt.Errorf("group %q: want one of %s", name, strings.Join(Groups, ", "))
		}
	}
	if !program {
		return fmt.Errorf("no group named program")
	}
	return nil
}

// Parse reads the text of a range in a domain by the first pattern that fits; false: it is no step.
func Parse(patterns []Pattern, domain, text string) (Step, *Pattern, bool) {
	for i := range patterns {
		if p := &patterns[i]; p.AnyDomain || p.Domain == domain {
			if s, ok := p.parse(text); ok {
				return s, p, true
			}
		}
	}
	return Step{}, nil, false
}

// parse reads a text by the pattern; false: it is no step.
func (p *Pattern) parse(text string) (s Step, ok bool) {
	if p.Match == nil {
		return parseBuiltin(text)
	}
	m := p.Match.FindStringSubmatch(text)
	if m == nil {
		return s, false
	}
	s.Text, s.Program = text, p.Program
	var vars []pair
	for i, name := range p.Match.SubexpNames() {
		if name == "program" {
			s.Program = cmp.Or(m[i], p.Program)
		} else if name != "" && m[i] != "" {
			vars = join(vars, pair{name, m[i]})
		}
	}
	s.take(vars)
	return s, s.Program != ""
}

const builtin = "step:"

func parseBuiltin(text string) (s Step, ok bool) {
	rest, ok := strings.CutPrefix(text, builtin)
	if !ok {
		return s, false
	}
	program, pairs, _ := strings.Cut(rest, " ")
	s.Text, s.Program = text, program
	vars := make([]pair, 0, 8) // on the stack: engines give four or five
	for kv := range strings.SplitSeq(pairs, ",") {
		if k, v, ok := strings.Cut(strings.TrimSpace(kv), "="); ok {
			vars = append(vars, pair{k, v})
		}
	}
	s.take(vars)
	return s, program != ""
}

type pair struct{ name, value string }

// join appends a pair. Of a name that occurs again numbers are summed, as the sequences of a step's two parts; else the first counts.
func join(pairs []pair, p pair) []pair {
	i := slices.IndexFunc(pairs, func(o pair) bool { return o.name == p.name })
	if i < 0 {
		return append(pairs, p)
	}
	a, errA := strconv.ParseInt(pairs[i].value, 10, 62)
	b, errB := strconv.ParseInt(p.value, 10, 62)
	if errA == nil && errB == nil && slices.Contains(summed, p.name) {
		pairs[i].value = strconv.FormatInt(a+b, 10)
	}
	return pairs
}

// summed are the groups of which several in one expression give their sum.
var summed = []string{"seqs", "tokens", "kv"}

// take sorts pairs into the fields that they are, and the rest into Vars.
func (s *Step) take(pairs []pair) {
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	var vars strings.Builder
	size := 0
	for _, p := range pairs {
		size += len(p.name) + len(p.value) + 2
	}
	vars.Grow(size)
	for _, p := range pairs {
		switch p.name {
		case "seq":
			n, err := strconv.ParseInt(p.value, 10, 64)
			s.Seq, s.HasSeq = n, err == nil && n >= 0
			continue
		case "rank":
			s.Rank = p.value
			continue
		case "kv":
			s.KV = count(p.value)
			continue
		case "group":
			s.Group = p.value
			continue
		case "seqs":
			s.Seqs = count(p.value)
		case "tokens":
			s.Tokens = count(p.value)
		}
		if vars.Len() > 0 {
			vars.WriteByte(',')
		}
		vars.WriteString(p.name + "=" + p.value)
	}
	s.Vars = vars.String()
}

// count reads a number of things; 0 for what is none.
func count(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
