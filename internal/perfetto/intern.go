package perfetto

import "strings"

// maxText bounds names and values in bytes: they come from engines and compilers.
const maxText = 1024

// clean is a text as valid UTF-8 of bounded length.
func clean(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "")
}

// An interner gives texts numbers, from 1.
type interner struct {
	field int // of InternedData
	ids   map[string]uint64
	out   message
}

func newInterner(field int) *interner { return &interner{field: field, ids: map[string]uint64{}} }

// id is the number of a text.
func (n *interner) id(text string) uint64 {
	text = clean(text)
	id, ok := n.ids[text]
	if !ok {
		id = uint64(len(n.ids)) + 1
		n.ids[text] = id
		n.out = n.out.message(n.field, message(nil).uint(internedIID, id).text(internedText, text))
	}
	return id
}
