package dashboards

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write kernhes.json and docs/promql.md")

// held compares a file that is made here with what would be made now.
func held(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, want, 0o644))
	}
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "%s is not what panels.yaml makes: go test -update", path)
}

func TestTheBoardIsThatOfThePanels(t *testing.T) {
	text, err := JSON()
	require.NoError(t, err)
	held(t, "kernhes.json", text)
}

func TestTheDocsHaveTheQueriesOfThePanels(t *testing.T) {
	list, err := Markdown()
	require.NoError(t, err)
	page := filepath.Join("..", "docs", "promql.md")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(text), "<!-- begin queries -->")
	require.True(t, found)
	held(t, page, []byte(head+"<!-- begin queries -->\n"+list+"<!-- end queries -->\n"))
}

// known are the names of series: metrics of the receiver, the connector and Prometheus itself, and what the rules record.
func known(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{"ALERTS": true,
		"otelcol_exporter_send_failed_log_records_total": true, "otelcol_exporter_enqueue_failed_log_records_total": true}
	for _, path := range []string{"../receiver/kernhesreceiver/metadata.yaml", "../connector/kernwaitsconnector/metadata.yaml"} {
		var file struct {
			Metrics map[string]struct {
				Histogram any `yaml:"histogram"`
			} `yaml:"metrics"`
		}
		read(t, path, &file)
		for name, m := range file.Metrics {
			names[name] = true
			if m.Histogram != nil {
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					names[name+suffix] = true
				}
			}
		}
	}
	for _, r := range rules(t) {
		if r.Record != "" {
			names[r.Record] = true
		}
	}
	return names
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// A rule records a series or alerts.
type rule struct {
	Record      string            `yaml:"record"`
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	files, err := filepath.Glob("rules/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		var file struct {
			Groups []struct {
				Rules []rule `yaml:"rules"`
			} `yaml:"groups"`
		}
		read(t, path, &file)
		for _, g := range file.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

// series are names as they stand in an expression.
var series = regexp.MustCompile(`\b(?:[a-z]+:)?(?:kern_|otelcol_)[a-z0-9_]+(?::[a-z0-9_]+)?|\bALERTS\b`)

// labels are names that begin like a metric and are none.
var labels = regexp.MustCompile(`^kern_(model|run|mode|cupti_version)$`)

func TestQueriesAndRulesAskForSeriesThatExist(t *testing.T) {
	names := known(t)
	check := func(where, expr string) {
		found := 0
		for _, name := range series.FindAllString(expr, -1) {
			if labels.MatchString(name) {
				continue
			}
			found++
			assert.True(t, names[name], "%s asks for %s", where, name)
		}
		assert.Positive(t, found, where)
	}
	sections, err := Sections()
	require.NoError(t, err)
	for _, s := range sections {
		for _, p := range s.Panels {
			assert.NotEmpty(t, p.Help, p.Title)
			for _, q := range p.Queries {
				check(p.Title, q.Expr)
			}
		}
	}
	for _, r := range rules(t) {
		check(r.Record+r.Alert, r.Expr)
	}
}

func TestEachAlertHasASectionOfTheRunbook(t *testing.T) {
	text, err := os.ReadFile("../docs/runbook.md")
	require.NoError(t, err)
	for _, r := range rules(t) {
		if r.Alert != "" {
			assert.Contains(t, string(text), "\n## "+r.Alert+"\n")
			assert.True(t, strings.HasSuffix(r.Annotations["runbook_url"], "docs/runbook.md#"+strings.ToLower(r.Alert)), r.Alert)
			assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		}
	}
}

// promtool is Debian's package prometheus; scripts/setup installs it for the tests.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestPrometheusReadsTheRules(t *testing.T) {
	promtool(t, "check", "rules", "rules/recording.yaml", "rules/alerts.yaml")
}

func TestAlertsFireAndStayQuiet(t *testing.T) {
	files, err := filepath.Glob("rules/tests/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	promtool(t, append([]string{"test", "rules"}, files...)...)
	// Each alert fires in some test, and is expected to stay quiet in another.
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, path := range files {
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name   string `yaml:"alertname"`
					Expect []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			} `yaml:"tests"`
		}
		read(t, path, &file)
		for _, one := range file.Tests {
			for _, a := range one.Alerts {
				if len(a.Expect) > 0 {
					fires[a.Name] = true
				} else {
					quiet[a.Name] = true
				}
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" {
			assert.True(t, fires[r.Alert], "no test in which %s fires", r.Alert)
			assert.True(t, quiet[r.Alert], "no test in which %s stays quiet", r.Alert)
		}
	}
}
