package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kernhes/kernhes/internal/runname"
)

const tableHelp = `Prints a row for each rank: how long its GPU computed, communicated and idled, and for how long that is
unknown; compute by other work while steps ran (FOREIGN); complete steps; lost records; the traced share of the time.
UNKNOWN is by losses, in traced time. Times are seconds since the collector first heard of the rank. STEPS shows
incomplete ones after a plus sign.`

// table prints the ranks of a collector.
func table(args []string, out io.Writer) error {
	f := flags("table", "[FLAGS]", tableHelp)
	url := endpointFlag(f, "http://127.0.0.1:9464/metrics", "the collector's Prometheus endpoint", "url")
	run := f.String("run", "", "only ranks of this run; a name means all its starts, NAME# the first one")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("table: unexpected %q: %w", f.Arg(0), errUsage)
	}
	families, err := scrape(*url)
	if err != nil {
		return err
	}
	rows := gather(families, *run)
	if len(rows) == 0 {
		return errors.New("table: " + *url + " has no ranks yet")
	}
	return print(out, rows)
}

// scrape reads a Prometheus text page.
func scrape(url string) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return families, nil
}

// A row is one rank of one engine process.
type row struct {
	run, pid, host string
	rank           int64

	compute, comm, idle, unknown, foreign float64 // seconds
	untraced                              float64 // seconds of unknown: outside windows, yielded or off
	steps, incomplete, dropped            float64
}

// gather adds up what the families say of each rank, in order of run, rank and process.
func gather(families map[string]*dto.MetricFamily, run string) []*row {
	rows := map[string]*row{}
	each := func(name string, f func(r *row, kind string, value float64)) {
		for _, m := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if !runname.Is(labels["kern_run"], run) {
				continue
			}
			// The exporter gives service.instance.id as instance where it is not made a label of its own.
			id := cmp.Or(labels["service_instance_id"], labels["instance"])
			r := rows[id]
			if r == nil {
				rank, err := strconv.ParseInt(labels["rank"], 10, 64)
				if err != nil {
					continue
				}
				r = &row{run: labels["kern_run"], pid: labels["process_pid"], host: labels["host_name"], rank: rank}
				rows[id] = r
			}
			f(r, cmp.Or(labels["kind"], labels["reason"]), m.GetCounter().GetValue())
		}
	}
	each("kern_device_seconds_total", func(r *row, kind string, v float64) {
		switch kind {
		case "compute":
			r.compute += v
		case "comm":
			r.comm += v
		case "idle":
			r.idle += v
		case "unknown":
			r.unknown += v
		}
	})
	each("kern_device_unknown_seconds_total", func(r *row, reason string, v float64) {
		if reason != "loss" {
			r.untraced += v
		}
	})
	each("kern_step_foreign_compute_seconds_total", func(r *row, _ string, v float64) { r.foreign += v })
	each("kern_steps_total", func(r *row, _ string, v float64) { r.steps += v })
	each("kern_steps_incomplete_total", func(r *row, _ string, v float64) { r.incomplete += v })
	each("kern_trace_dropped_records_total", func(r *row, _ string, v float64) { r.dropped += v })
	return slices.SortedFunc(maps.Values(rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.run, b.run), cmp.Compare(a.rank, b.rank), cmp.Compare(a.pid, b.pid))
	})
}

// traced is how much of the device time was traced, percent.
func (r *row) traced() float64 {
	all := r.compute + r.comm + r.idle + r.unknown
	return 100 * (1 - r.untraced/max(all, 1e-9))
}

// print writes the rows under a heading.
func print(out io.Writer, rows []*row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "RUN\tRANK\tPID\tCOMPUTE s\tCOMM s\tIDLE s\tUNKNOWN s\tFOREIGN s\tSTEPS\tDROPPED\tTRACED\t")
	for _, r := range rows {
		steps := strconv.FormatFloat(r.steps, 'f', 0, 64)
		if r.incomplete > 0 {
			steps += "+" + strconv.FormatFloat(r.incomplete, 'f', 0, 64)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%.6f\t%.6f\t%.6f\t%.6f\t%.6f\t%s\t%.0f\t%.1f%%\t\n",
			r.run, r.rank, r.pid, r.compute, r.comm, r.idle, max(0, r.unknown-r.untraced), r.foreign, steps, r.dropped, r.traced())
	}
	return w.Flush()
}
