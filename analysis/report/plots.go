package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math/big"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/kernhes/kernhes/analysis/duck"
)

// Colours of the kinds of time, as on the live page.
var (
	computeColour = color.RGBA{0x2f, 0x6f, 0xd0, 0xff}
	commColour    = color.RGBA{0xe0, 0x8a, 0x1e, 0xff}
	idleColour    = color.RGBA{0xb8, 0xc2, 0xcc, 0xff}
	foreignColour = color.RGBA{0xb5, 0x65, 0xc9, 0xff}
)

// palette are the colours of lines.
var palette = []color.RGBA{computeColour, commColour, {0x1a, 0x7f, 0x37, 0xff}, foreignColour, {0x57, 0x60, 0x6a, 0xff}, {0xb4, 0x23, 0x18, 0xff}}

// svg draws a plot.
func svg(p *plot.Plot, width, height vg.Length) (string, error) {
	w, err := p.WriterTo(width, height, "svg")
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		return "", err
	}
	_, text, found := strings.Cut(b.String(), "<svg")
	if !found {
		return "", fmt.Errorf("the plot has no <svg>")
	}
	return "<svg" + text, nil
}

// number is a value of a table as a float64.
func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case int64:
		return float64(v)
	case int32:
		return float64(v)
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f
	}
	return 0
}

// column is a column of numbers.
func column(t *duck.Table, name string) (values plotter.Values) {
	i := slices.Index(t.Columns, name)
	for _, row := range t.Rows {
		values = append(values, number(row[i]))
	}
	return values
}

// texts is a column as text.
func texts(t *duck.Table, name string) (values []string) {
	i := slices.Index(t.Columns, name)
	for _, row := range t.Rows {
		values = append(values, fmt.Sprint(row[i]))
	}
	return values
}

// A stack is a part of stacked bars.
type stack struct {
	name   string
	values plotter.Values
	colour color.RGBA
}

// bars stacks parts, a bar a label.
func bars(title, axis string, labels []string, parts ...stack) (string, error) {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, axis
	p.Legend.Top, p.Legend.Padding = true, vg.Points(4)
	width := vg.Points(max(4, min(40, 480/float64(len(labels)))))
	var below *plotter.BarChart
	for _, part := range parts {
		chart, err := plotter.NewBarChart(part.values, width)
		if err != nil {
			return "", err
		}
		chart.Color, chart.LineStyle.Width = part.colour, 0
		if below != nil {
			chart.StackOn(below)
		}
		below = chart
		p.Add(chart)
		p.Legend.Add(part.name, chart)
	}
	p.Y.Min = 0
	p.Y.Max *= 1.4 // room for the legend
	p.NominalX(labels...)
	return svg(p, 22*vg.Centimeter, 8*vg.Centimeter)
}

func ranksPlot(t *duck.Table) (string, error) {
	return bars("", "seconds", texts(t, "rank"),
		stack{"compute", column(t, "compute_s"), computeColour}, stack{"communication", column(t, "comm_s"), commColour},
		stack{"idle in steps", column(t, "idle_s"), idleColour}, stack{"foreign", column(t, "foreign_s"), foreignColour})
}

func waitsPlot(t *duck.Table) (string, error) {
	return bars("", "ms", texts(t, "rank"), stack{"waits for others", column(t, "wait_ms"), commColour}, stack{"others wait for it", column(t, "blame_ms"), computeColour})
}

// mostCalls is how many calls a plot shows.
const mostCalls = 12

func callsPlot(t *duck.Table) (string, error) {
	top := &duck.Table{Columns: t.Columns, Rows: slices.Clone(t.Rows[:min(len(t.Rows), mostCalls)])}
	slices.Reverse(top.Rows) // the longest on top
	p := plot.New()
	p.X.Label.Text = "seconds of kernels"
	chart, err := plotter.NewBarChart(column(top, "seconds"), vg.Points(14))
	if err != nil {
		return "", err
	}
	chart.Horizontal, chart.Color, chart.LineStyle.Width = true, computeColour, 0
	p.Add(chart)
	var labels []string
	programs, calls := texts(top, "program"), texts(top, "call")
	for i := range calls {
		label := strings.TrimSpace(programs[i] + " " + calls[i])
		if label == "" {
			label = "outside any step"
		}
		labels = append(labels, ascii(label, 60))
	}
	p.NominalY(labels...)
	p.X.Min = 0
	return svg(p, 22*vg.Centimeter, vg.Length(len(labels)+3)*0.7*vg.Centimeter)
}

// ascii is a text that the plot's font surely has, of at most so many characters.
func ascii(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
	if len(s) > most {
		s = s[:most-3] + "..."
	}
	return s
}

// mostPrograms is how many programs a plot has lines for.
const mostPrograms = 3

func percentilesPlot(t *duck.Table) (string, error) {
	p := plot.New()
	p.Y.Label.Text, p.X.Label.Text = "ms (log)", "seconds from the start"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Padding = true, vg.Points(4)
	programs, from, p50, p99 := texts(t, "program"), column(t, "from_ns"), column(t, "p50_ms"), column(t, "p99_ms")
	start := slices.Min(from)
	var seen []string
	for i := range programs {
		if !slices.Contains(seen, programs[i]) {
			seen = append(seen, programs[i])
		}
	}
	for n, program := range seen[:min(len(seen), mostPrograms)] {
		for q, values := range map[string]plotter.Values{"p50": p50, "p99": p99} {
			var points plotter.XYs
			for i := range programs {
				if programs[i] == program && values[i] > 0 {
					points = append(points, plotter.XY{X: (from[i] - start) / 1e9, Y: values[i]})
				}
			}
			if len(points) == 0 {
				continue
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return "", err
			}
			line.Color, line.Width = palette[n], vg.Points(1.4)
			if q == "p99" {
				line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
			}
			p.Add(line)
			p.Legend.Add(ascii(program, 30)+" "+q, line)
		}
	}
	if p.Y.Min <= 0 || p.Y.Min >= p.Y.Max {
		p.Y.Min, p.Y.Max = max(p.Y.Max/2, 1e-3), max(p.Y.Max*2, 2e-3)
	}
	return svg(p, 22*vg.Centimeter, 9*vg.Centimeter)
}
