// Package classify says of a kernel's name whether its time is compute or communication.
package classify

import (
	_ "embed"
	"regexp"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

//go:embed rules.tsv
var builtin string

// A Rule gives a class to the names that its expression fits.
type Rule struct {
	Class span.Class
	Fused bool // communicates and computes: counts as comm
	Whole bool // Match is of the whole name, not of its path
	Match *regexp.Regexp
	Fits  []string // names that it must fit
	Not   []string // look-alikes that it must not
}

// fits reports whether the rule fits a name.
func (r *Rule) fits(whole, path string) bool {
	if r.Whole {
		return r.Match.MatchString(whole)
	}
	return r.Match.MatchString(path)
}

// Rules are a table of rules, tried from the top. It does not change: sessions share it.
type Rules struct {
	// Version is the number in the table's line "# version: N"; rules over others have both: "mine+2".
	Version string
	List    []Rule
}

// Builtin are the rules that ship with kernhes.
var Builtin = must(Parse(builtin))

func must(r Rules, err error) Rules {
	if err != nil {
		panic(err) // the embedded table is wrong; a test reads it first
	}
	return r
}

// Over is rules with those of base below them: what rules say nothing of, base decides.
func (rules Rules) Over(base Rules) Rules {
	list := append(append([]Rule(nil), rules.List...), base.List...)
	return Rules{Version: rules.Version + "+" + base.Version, List: list}
}

// Look is the class of a kernel's name, mangled or not, and whether it is fused: communicates and computes, and counts
// as comm. Ruled is false if no rule fits: then it is compute by default.
func (rules Rules) Look(name string) (class span.Class, fused, ruled bool) {
	whole := Whole(name)
	path := pathOf(whole)
	for i := range rules.List {
		if r := &rules.List[i]; r.fits(whole, path) {
			return r.Class, r.Fused, true
		}
	}
	return span.Compute, false, false
}

// Class is Look without whether a rule fitted.
func (rules Rules) Class(name string) (class span.Class, fused bool) {
	class, fused, _ = rules.Look(name)
	return class, fused
}
