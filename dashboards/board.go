// Package dashboards turns panels.yaml into a Grafana board.
package dashboards

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"go.yaml.in/yaml/v3"
)

//go:embed panels.yaml
var list []byte

// A Section is a row of the board.
type Section struct {
	Section string  `yaml:"section"`
	Panels  []Panel `yaml:"panels"`
}

// A Panel answers one question with one or more queries.
type Panel struct {
	Title   string   `yaml:"title"`
	Kind    string   `yaml:"kind"` // timeseries (also if empty), stacked, stat, table
	Unit    string   `yaml:"unit"` // one of Grafana's units
	Max     float64  `yaml:"max"`  // of the axis; 0: as the data are
	Help    string   `yaml:"help"`
	Queries []Target `yaml:"queries"`
}

// A Target is a PromQL query. Where it says $select, it has the variables of the board.
type Target struct {
	Expr   string `yaml:"expr"`
	Legend string `yaml:"legend"`
}

// Sections reads panels.yaml.
func Sections() (sections []Section, err error) {
	d := yaml.NewDecoder(strings.NewReader(string(list)))
	d.KnownFields(true)
	if err := d.Decode(&sections); err != nil {
		return nil, fmt.Errorf("panels.yaml: %w", err)
	}
	return sections, nil
}

// selection are the label matchers that $select stands for.
const selection = `kern_model=~"$model", kern_run=~"$run", rank=~"$rank"`

// Query is the query as Grafana gets it, with the board's variables.
func (t Target) Query() string { return strings.ReplaceAll(t.Expr, "$select", selection) }

// Plain is the query without variables, as one types it into Prometheus.
func (t Target) Plain() string {
	q := strings.ReplaceAll(t.Expr, "{$select, ", "{")
	q = strings.ReplaceAll(q, "{$select}", "")
	q = strings.ReplaceAll(q, `{program=~"$program"}`, "")
	q = strings.ReplaceAll(q, `, program=~"$program"`, "")
	return strings.ReplaceAll(q, `{kern_model=~"$model", kern_run=~"$run"}`, "")
}

// source is the data source that the user of the board chooses.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// JSON is the board as Grafana imports it.
func JSON() ([]byte, error) {
	sections, err := Sections()
	if err != nil {
		return nil, err
	}
	board := dashboard.NewDashboardBuilder("kernhes: GPU time of an inference engine").
		Uid("kernhes").
		Description("Ranks side by side: where GPU time goes, which rank is slow, who waits for whom. Needs dashboards/rules.").
		Tags([]string{"gpu", "inference", "kernhes"}).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Refresh("10s").
		Time("now-15m", "now").
		Timezone(common.TimeZoneBrowser).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(variable("model", "Model", `label_values(kern_up, kern_model)`)).
		WithVariable(variable("run", "Run", `label_values(kern_up{kern_model=~"$model"}, kern_run)`)).
		WithVariable(variable("rank", "Rank", `label_values(kern_up{kern_model=~"$model", kern_run=~"$run"}, rank)`)).
		WithVariable(variable("program", "Program", `label_values(kern_steps_total{kern_model=~"$model", kern_run=~"$run"}, program)`))
	for _, s := range sections {
		board.WithRow(dashboard.NewRowBuilder(s.Section))
		for _, p := range s.Panels {
			board.WithPanel(p.build())
		}
	}
	built, err := board.Build()
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(built, "", "  ")
	return append(text, '\n'), err
}

// variable is one whose values Prometheus knows. The newest values come with each change of the time range.
func variable(name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(source).
		Query(dashboard.StringOrMap{String: cog.ToPtr(query)}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortNumericalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{
			Selected: cog.ToPtr(true),
			Text:     dashboard.StringOrArrayOfString{String: cog.ToPtr("All")},
			Value:    dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
		})
}

// build is the panel as a part of the board: a third of its width, a table two thirds.
func (p Panel) build() cog.Builder[dashboard.Panel] {
	switch p.Kind {
	case "stat":
		panel := stat.NewPanelBuilder().Title(p.Title).Description(p.Help).Unit(p.Unit).Datasource(source).Span(4).Height(8).
			GraphMode(common.BigValueGraphModeNone)
		for i, q := range p.Queries {
			panel.WithTarget(q.build(i).Instant())
		}
		return panel
	case "table":
		panel := table.NewPanelBuilder().Title(p.Title).Description(p.Help).Unit(p.Unit).Datasource(source).Span(12).Height(8).
			NoValue("none")
		for i, q := range p.Queries {
			panel.WithTarget(q.build(i).Instant().Format(prometheus.PromQueryFormatTable))
		}
		return panel
	}
	panel := timeseries.NewPanelBuilder().Title(p.Title).Description(p.Help).Unit(p.Unit).Datasource(source).Span(8).Height(8).
		Min(0).
		FillOpacity(0).
		ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.Max > 0 {
		panel.Max(p.Max)
	}
	if p.Kind == "stacked" {
		panel.FillOpacity(60).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	for i, q := range p.Queries {
		panel.WithTarget(q.build(i))
	}
	return panel
}

func (t Target) build(i int) *prometheus.DataqueryBuilder {
	q := prometheus.NewDataqueryBuilder().Expr(t.Query()).RefId(string(rune('A' + i))).Datasource(source)
	if t.Legend != "" {
		q.LegendFormat(t.Legend)
	}
	return q
}
