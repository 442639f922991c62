package trace

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of texts in bytes. Names are for reading and attributes for searching; a span has four of the long ones at most.
const (
	maxName = 128
	maxText = 1024
)

// bounded is a text of hostile make without control characters, at most limit bytes long: a longer one ends in "…".
func bounded(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit] // what follows is cut in any case: a character has 4 bytes at most
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r // also RuneError for what is not UTF-8
	}, s)
	if len(s) <= limit {
		return s
	}
	const dots = "…"
	end := limit - len(dots)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}
