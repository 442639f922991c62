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

// Brief is a text of an engine to be shown beside others: as Text, and of at most so many characters and an ellipsis. A run of bytes
// that are no UTF-8 is one U+FFFD.
func Brief(s string, most int) string {
	s = Text(strings.ToValidUTF8(s, "\uFFFD"))
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
