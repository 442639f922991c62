package wire

import (
	"strings"
	"unicode"
)

// Text is a text off the wire as it may go anywhere: UTF-8 without control and format characters. Protobuf refuses a whole message for one
// byte that is none, terminals obey control characters, and marks of direction show a text as another.
func Text[T string | []byte](b T) string {
	for i := range len(b) {
		if c := b[i]; c < ' ' || c > '~' {
			return strings.Map(printable, string(b))
		}
	}
	return string(b)
}

// printable is r, or U+FFFD, which Map also gives for each byte that is no UTF-8.
func printable(r rune) rune {
	if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
		return unicode.ReplacementChar
	}
	return r
}
