package classify

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// Bounds of a table: a name is tried against each rule, once a session.
const (
	maxTable = 1 << 20 // bytes
	maxRules = 1000
)

// classes are the words of a table's first column.
var classes = map[string]Rule{
	"compute": {Class: span.Compute},
	"comm":    {Class: span.Comm},
	"fused":   {Class: span.Comm, Fused: true},
	"memcpy":  {Class: span.Copy},
	"spin":    {Class: span.Spin},
}

// Word is the word of a class in tables and for people: compute, comm, fused, memcpy or spin.
func Word(class span.Class, fused bool) string {
	switch {
	case class == span.Copy:
		return "memcpy"
	case fused:
		return "fused"
	}
	return class.String()
}

// Parse reads a table of rules. A line is class, what of the name (path: qualified, without return type, template arguments
// and parameters; whole: all of it, demangled), expression, names that fit, look-alikes that must not; separated by tabs, names
// by " ; ", and the last two may be missing. Lines that begin with # are comments. A table that contradicts its own
// names is refused: an error names the line.
func Parse(table string) (Rules, error) {
	rules := Rules{}
	if len(table) > maxTable {
		return rules, fmt.Errorf("table of %d bytes, at most %d", len(table), maxTable)
	}
	for i, line := range strings.Split(table, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if version, ok := strings.CutPrefix(line, "# version:"); ok && rules.Version == "" {
			rules.Version = fmt.Sprintf("%.40s", strings.TrimSpace(version))
		}
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		r, err := parseRule(line)
		if err == nil && len(rules.List) == maxRules {
			err = fmt.Errorf("more than %d", maxRules)
		}
		if err != nil {
			return Rules{}, fmt.Errorf("rule in line %d: %w", i+1, err)
		}
		rules.List = append(rules.List, r)
	}
	rules.Version = cmp.Or(rules.Version, "unversioned")
	return rules, nil
}

func parseRule(line string) (Rule, error) {
	f := strings.Split(line, "\t")
	if len(f) < 3 || len(f) > 5 {
		return Rule{}, fmt.Errorf("%d columns, want class, path or whole, expression, and names", len(f))
	}
	r, ok := classes[f[0]]
	if !ok {
		return r, fmt.Errorf("class %.100q, want comm, fused, compute, memcpy or spin", f[0])
	}
	if r.Whole = f[1] == "whole"; !r.Whole && f[1] != "path" {
		return r, fmt.Errorf("%.100q, want path or whole", f[1])
	}
	if f[2] == "" {
		return r, fmt.Errorf("expression is empty")
	}
	var err error
	if r.Match, err = regexp.Compile(f[2]); err != nil {
		return r, err
	}
	if len(f) > 3 {
		r.Fits = names(f[3])
	}
	if len(f) > 4 {
		r.Not = names(f[4])
	}
	for _, name := range r.Fits {
		if !r.fits(Whole(name), Path(name)) {
			return r, fmt.Errorf("does not fit %.200q", name)
		}
	}
	for _, name := range r.Not {
		if r.fits(Whole(name), Path(name)) {
			return r, fmt.Errorf("fits the look-alike %.200q", name)
		}
	}
	return r, nil
}

// names are the names in a column.
func names(column string) (list []string) {
	for _, name := range strings.Split(column, " ; ") {
		if name = strings.TrimSpace(name); name != "" {
			list = append(list, name)
		}
	}
	return list
}
