package dashboards

import (
	"fmt"
	"strings"
)

// Markdown is the list of queries for docs/promql.md: a table a section, with what each query answers.
func Markdown() (string, error) {
	sections, err := Sections()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "## %s\n", s.Section)
		for _, p := range s.Panels {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n```promql\n", p.Title, wrap(p.Help, 100))
			for i, q := range p.Queries {
				if i > 0 {
					b.WriteString("\n")
				}
				b.WriteString(q.Plain() + "\n")
			}
			b.WriteString("```\n")
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// wrap breaks text at spaces into lines of at most width bytes.
func wrap(text string, width int) string {
	var b strings.Builder
	length := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case length == 0:
		case length+1+len(word) > width:
			b.WriteString("\n")
			length = 0
		default:
			b.WriteString(" ")
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
}
