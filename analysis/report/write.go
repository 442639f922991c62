package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math/big"
	"strconv"
	"strings"

	"github.com/kernhes/kernhes/internal/wire"
)

//go:embed report.html
var html string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"value":   value,
	"numeric": numeric,
	"svg":     func(s string) template.HTML { return template.HTML(s) }, // of gonum/plot, whose texts are ascii and escaped
	"clean":   clean,
}).Parse(html))

// WriteHTML writes one page that needs nothing else.
func (r *Report) WriteHTML(w io.Writer) error { return page.Execute(w, r) }

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// WriteMarkdown writes the report for people and agents who read text.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Run %s\n\n%s to %s, %d ranks, %d steps.\n\n## Findings\n\n", escape(r.Run), r.From.Format("2006-01-02 15:04:05"), r.To.Format("15:04:05 MST"), r.Ranks, r.Steps)
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "- **%s** %s\n", f.Kind, escape(f.Text))
	}
	if len(r.Findings) == 0 {
		b.WriteString("Nothing went wrong.\n")
	}
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.Title, s.Help)
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(s.Columns, " | "), strings.Repeat(" --- |", len(s.Columns)))
		for _, row := range s.Rows {
			var cells []string
			for _, v := range row {
				cells = append(cells, escape(value(v)))
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		if s.More > 0 {
			fmt.Fprintf(&b, "\n%d more rows.\n", s.More)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// escape is a text of an engine within a table of Markdown.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "*", `\*`, "[", `\[`).Replace(clean(s))
}

// maxText bounds a text of an engine, in characters.
const maxText = 120

// clean bounds a text, and takes out what would reorder or hide its neighbours.
func clean(s string) string { return wire.Brief(s, maxText) }

// value is one of a table as people read it.
func value(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		if v != 0 && (v < 0.001 && v > -0.001) {
			return strconv.FormatFloat(v, 'g', 3, 64)
		}
		return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 3, 64), "0"), ".")
	case *big.Int:
		return v.String()
	case string:
		return clean(v)
	}
	return fmt.Sprint(v)
}

func numeric(v any) bool {
	switch v.(type) {
	case string, bool, nil:
		return false
	}
	return true
}
