// Package classify says of a kernel's name whether its time is compute or communication.
package classify

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

//go:embed rules.tsv
var builtin string

// A Rule gives a class to the names that its expression fits.
type Rule struct {
	Class span.Class
	Fused bool // communicates and computes: counts as comm
	Match *regexp.Regexp
	Fits  []string // names that it must fit
	Not   []string // look-alikes that it must not
}

// Rules are tried from the top.
type Rules []Rule

// Builtin are the rules that ship with kernhes.
var Builtin = must(Parse(builtin))

// Parse reads a table of rules: tab-separated class (comm, fused, compute), expression, names that
// fit and look-alikes, the names separated by spaces; lines that begin with # are comments.
func Parse(table string) (Rules, error) {
	var rules Rules
	for i, line := range strings.Split(table, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("rule in line %d: %d columns, want 4", i+1, len(f))
		}
		r := Rule{Fits: strings.Fields(f[2]), Not: strings.Fields(f[3])}
		switch f[0] {
		case "comm":
			r.Class = span.Comm
		case "fused":
			r.Class, r.Fused = span.Comm, true
		case "compute":
		default:
			return nil, fmt.Errorf("rule in line %d: class %q, want comm, fused or compute", i+1, f[0])
		}
		var err error
		if r.Match, err = regexp.Compile(f[1]); err != nil {
			return nil, fmt.Errorf("rule in line %d: %w", i+1, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func must(r Rules, err error) Rules {
	if err != nil {
		panic(err) // the embedded table is wrong; a test reads it first
	}
	return r
}

// Class is the class of a kernel's name, mangled or not, and whether it is fused: communicates and
// computes, and counts as comm.
func (rules Rules) Class(name string) (class span.Class, fused bool) {
	path := Path(name)
	for i := range rules {
		if rules[i].Match.MatchString(path) {
			return rules[i].Class, rules[i].Fused
		}
	}
	return span.Compute, false
}

// Fused reports whether the kernel of a name, mangled or not, communicates and computes.
func (rules Rules) Fused(name string) bool {
	path := Path(name)
	for i := range rules {
		if rules[i].Match.MatchString(path) {
			return rules[i].Fused
		}
	}
	return false
}

// Path is the qualified name of a kernel without return type, template arguments and parameters.
func Path(name string) string {
	if strings.HasPrefix(name, "_Z") {
		name = demangle.Filter(name, demangle.NoParams, demangle.MaxLength(13))
	}
	name = strings.ReplaceAll(name, "(anonymous namespace)::", "")
	var b strings.Builder
	depth := 0
	for _, c := range name {
		switch {
		case c == '<':
			depth++
		case c == '>' && depth > 0:
			depth--
		case depth > 0:
		case c == '(':
			return last(b.String())
		default:
			b.WriteRune(c)
		}
	}
	return last(b.String())
}

// last is what stands after the return type.
func last(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, ' ')+1:]
}
