// Package runname tells the runs of one name apart, and finds them by that name.
//
//	NAME          the first start
//	NAME#STAMP    a later start, because the name was used again
package runname

import "strings"

const separator = "#"

// Again is the run of a later start of a name.
func Again(name, stamp string) string { return name + separator + stamp }

// Is reports whether a run is one that a person asks for. A name asks for all its starts, NAME# for the first one alone,
// and nothing for any run.
func Is(run, asked string) bool {
	if first, ok := strings.CutSuffix(asked, separator); ok && run == first {
		return true
	}
	return asked == "" || run == asked || !strings.HasSuffix(asked, separator) && strings.HasPrefix(run, asked+separator)
}
