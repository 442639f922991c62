package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTextsCanGoAnywhere(t *testing.T) {
	for from, want := range map[string]string{
		"": "", "plain text ~": "plain text ~", "é漢": "é漢", "a\xffb\xfe": "a\uFFFDb\uFFFD", "line\nbreak\x00": "line\uFFFDbreak\uFFFD",
		"\x1b[31mred": "\uFFFD[31mred", "\u0085next": "\uFFFDnext", "\x7f": "\uFFFD", "\xe2\x80": "\uFFFD\uFFFD",
		"a\u202egnp.exe": "a\uFFFDgnp.exe", "\u2066x\u2069": "\uFFFDx\uFFFD", "a\u200fb\u061cc": "a\uFFFDb\uFFFDc", "one\u2028two\u2029": "one\uFFFDtwo\uFFFD",
		"\ufeffbom\u200b": "\uFFFDbom\uFFFD", "שלום": "שלום",
	} {
		require.Equal(t, want, Text(from), "%q", from)
		require.Equal(t, want, Text([]byte(from)), "%q", from)
	}
}

func TestBriefIsBoundedInCharacters(t *testing.T) {
	require.Equal(t, "äöü", Brief("äöü", 3))
	require.Equal(t, "äö…", Brief("äöü", 2))
	require.Equal(t, "a\uFFFDb\uFFFDc\uFFFD", Brief("a\xff\xfeb\u202ec\u2028", 10), "bytes that are no UTF-8 are one, marks and separators one each")
}
