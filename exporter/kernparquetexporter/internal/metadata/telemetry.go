package metadata

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/kernhes/kernhes/internal/books"
)

// Telemetry is the exporter's own instruments, as metadata.yaml lists them under `telemetry`.
type Telemetry struct {
	RefusedRecords metric.Int64Counter // attribute reason

	meter        metric.Meter
	observed     []observer
	registration metric.Registration
}

// Observed are the values of the instruments that are looked at; maps are by the attribute table.
type Observed struct {
	Chunks          int64
	DuplicateChunks int64
	Rows            map[string]int64
	LostRows        map[string]int64
	ClosedFiles     int64
	ClosedBytes     int64
	RecoveredParts  int64
	DamagedBytes    int64
	UnclosedParts   int64
	RemovedFiles    int64
	Failures        int64
}

// An observer is an instrument that is looked at.
type observer struct {
	instrument metric.Int64Observable
	one        func(*Observed) int64
	byTable    func(*Observed) map[string]int64
	also       []attribute.KeyValue // besides the table
}

// NewTelemetry creates the instruments with the collector's meter.
func NewTelemetry(settings component.TelemetrySettings) (*Telemetry, error) {
	t := &Telemetry{meter: settings.MeterProvider.Meter(ScopeName)}
	var faults []error
	var err error
	t.RefusedRecords, err = t.meter.Int64Counter("otelcol_kernparquet_refused_records", metric.WithUnit("{record}"),
		metric.WithDescription("Log records that hold no chunk of a known version, by reason."))
	faults = append(faults, err)
	counter := func(name, unit, description string) metric.Int64Observable {
		c, err := t.meter.Int64ObservableCounter("otelcol_"+name, metric.WithUnit(unit), metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	one := func(i metric.Int64Observable, value func(*Observed) int64) {
		t.observed = append(t.observed, observer{instrument: i, one: value})
	}
	byTable := func(i metric.Int64Observable, values func(*Observed) map[string]int64, also ...attribute.KeyValue) {
		t.observed = append(t.observed, observer{instrument: i, byTable: values, also: also})
	}
	one(counter("kernparquet_chunks", "{chunk}", "Chunks of packed steps that were taken; they outlive a crash."),
		func(o *Observed) int64 { return o.Chunks })
	one(counter("kernparquet_duplicate_chunks", "{chunk}", "Chunks that had been taken before, and were not taken again."),
		func(o *Observed) int64 { return o.DuplicateChunks })
	byTable(counter("kernparquet_rows", "{row}", "Rows of the chunks that were taken, by table."),
		func(o *Observed) map[string]int64 { return o.Rows })
	byTable(counter("kernparquet_lost_rows", "{row}",
		"Rows that were taken and are in no closed file, because open files were removed or damaged by others, by table; "+
			"reason is archive, as docs/books.md names this loss."),
		func(o *Observed) map[string]int64 { return o.LostRows }, attribute.String("reason", books.ArchiveLost))
	one(counter("kernparquet_closed_files", "{file}", "Files that were closed."),
		func(o *Observed) int64 { return o.ClosedFiles })
	one(counter("kernparquet_closed_bytes", "By", "Bytes of the files that were closed."),
		func(o *Observed) int64 { return o.ClosedBytes })
	one(counter("kernparquet_recovered_parts", "{part}",
		"Parts (files k, s, c and r of one roll) that were closed from what a crash or a failed write had left."),
		func(o *Observed) int64 { return o.RecoveredParts })
	one(counter("kernparquet_damaged_bytes", "By", "Bytes of journals that were skipped, since they are no records and whole ones follow."),
		func(o *Observed) int64 { return o.DamagedBytes })
	level, err := t.meter.Int64ObservableUpDownCounter("otelcol_kernparquet_unclosed_parts", metric.WithUnit("{part}"),
		metric.WithDescription("Parts that take no more chunks and are not closed yet."))
	faults = append(faults, err)
	one(level, func(o *Observed) int64 { return o.UnclosedParts })
	one(counter("kernparquet_removed_files", "{file}", "Closed files that were removed by retention."),
		func(o *Observed) int64 { return o.RemovedFiles })
	one(counter("kernparquet_failures", "{failure}", "Attempts to write, close or remove files that failed; each is repeated."),
		func(o *Observed) int64 { return o.Failures })
	return t, errors.Join(faults...)
}

// Observe says where the values are, until Shutdown.
func (t *Telemetry) Observe(values func() Observed) error {
	var all []metric.Observable
	for _, o := range t.observed {
		all = append(all, o.instrument)
	}
	var err error
	t.registration, err = t.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		v := values()
		for _, o := range t.observed {
			if o.one != nil {
				to.ObserveInt64(o.instrument, o.one(&v))
				continue
			}
			for table, n := range o.byTable(&v) {
				to.ObserveInt64(o.instrument, n, metric.WithAttributes(append(o.also[:len(o.also):len(o.also)], attribute.String("table", table))...))
			}
		}
		return nil
	}, all...)
	return err
}

// Shutdown ends Observe.
func (t *Telemetry) Shutdown() error {
	if t.registration == nil {
		return nil
	}
	return t.registration.Unregister()
}
