package metrics

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
)

// maxLast bounds the final numbers that wait for a consumer.
const maxLast = 256

// A LiveFunc returns how the sessions stand that have not ended.
type LiveFunc func(now time.Time) []fleet.Session

// An Exporter gives the numbers of all sessions to the metrics pipeline.
type Exporter struct {
	log     *zap.Logger
	next    consumer.Metrics // nil: there is no such pipeline
	obs     *receiverhelper.ObsReport
	id      string // of the receiver
	version string
	Begun   time.Time

	exporting sync.Mutex
	last      []pmetric.Metrics // final numbers of ended sessions that no consumer has taken yet
	names     instances
	silence   fleet.CommSilence
	blocked   fleet.Blocked
	shown     shown
	endings   fleet.Endings
}

func NewExporter(log *zap.Logger, obs *receiverhelper.ObsReport, id, version string) *Exporter {
	return &Exporter{log: log, obs: obs, id: id, version: version, names: instances{}}
}

// Start begins to count; next may be nil.
func (e *Exporter) Start(next consumer.Metrics, now time.Time) { e.next, e.Begun = next, now }

// Left is what an exporter leaves for the one that follows it in this process.
type Left struct {
	begun   time.Time
	endings fleet.Endings
	last    []pmetric.Metrics
}

// Leave returns what the exporter has counted, and has not given away.
func (e *Exporter) Leave() Left {
	e.exporting.Lock()
	defer e.exporting.Unlock()
	return Left{e.Begun, e.endings, e.last}
}

// TakeOver goes on from what the exporter before left.
func (e *Exporter) TakeOver(from Left) {
	e.exporting.Lock()
	defer e.exporting.Unlock()
	e.Begun, e.endings, e.last = from.begun, from.endings, from.last
}

// End takes a session that has ended, and exports its numbers for the last time. It looks at no other: many may end at once.
func (e *Exporter) End(ctx context.Context, session uint64, reports []engine.Report, gone bool) {
	numbers := pmetric.NewMetrics()
	now := time.Now()
	e.exporting.Lock()
	defer e.exporting.Unlock()
	for i := range reports {
		reports[i].Down = fleet.WhyEnded(gone)
	}
	e.append(numbers, session, reports, now)
	e.shown.end(session, now)
	e.endings.Add(&reports[0], gone)
	delete(e.names, session)
	e.last = append(e.last, numbers)
	e.last = e.last[max(0, len(e.last)-maxLast):]
	e.exportLast(ctx)
}

// Export gives the consumer the numbers of all live sessions, and those of ended ones that it has not had.
func (e *Exporter) Export(ctx context.Context, live LiveFunc) {
	e.exporting.Lock()
	defer e.exporting.Unlock()
	if !e.exportLast(ctx) {
		return // the next interval brings them, and newer numbers of the live ones
	}
	now := time.Now()
	if err := e.consume(ctx, e.collect(live(now), now)); err != nil {
		e.log.Debug("metrics were refused; the next interval's include them", zap.Error(err))
	}
}

// exportLast gives the consumer the last numbers of ended sessions; false: it takes none now. The caller holds exporting.
func (e *Exporter) exportLast(ctx context.Context) bool {
	for len(e.last) > 0 {
		if err := e.consume(ctx, e.last[0]); err != nil && !consumererror.IsPermanent(err) {
			return false
		}
		e.last = e.last[1:]
	}
	return true
}

func (e *Exporter) consume(ctx context.Context, m pmetric.Metrics) error {
	points := m.DataPointCount()
	if points == 0 || e.next == nil {
		return nil
	}
	ctx = e.obs.StartMetricsOp(ctx)
	err := e.next.ConsumeMetrics(ctx, m)
	e.obs.EndMetricsOp(ctx, metadata.Type.String(), points, err)
	return err
}

// collect is the numbers of all live sessions. The caller holds exporting.
func (e *Exporter) collect(sessions []fleet.Session, now time.Time) pmetric.Metrics {
	to := pmetric.NewMetrics()
	report := receiverReport{since: e.Begun, conflicts: fleet.Conflicts(sessions)}
	e.silence.Check(e.log, sessions)
	e.blocked.Check(e.log, sessions)
	for _, s := range sessions {
		if s.Connected {
			report.connected++
		} else {
			report.waiting++
		}
		e.append(to, s.ID, s.Reports, now)
		e.endings.Live(&s.Reports[0])
	}
	e.shown.ended(to, now)
	report.ended = e.endings.Take()
	appendReceiver(to, report, e.id, e.version, now)
	return to
}

// append appends a session's ranks. The caller holds exporting.
func (e *Exporter) append(to pmetric.Metrics, session uint64, reports []engine.Report, now time.Time) {
	for i := range reports {
		report := &reports[i]
		if report.Unplaced {
			continue
		}
		appendRank(to, report, e.silence.Runs[report.Info["run"]], e.blocked.Why(report), e.names.of(session, report), e.version, now)
		e.shown.show(to, to.ResourceMetrics().At(to.ResourceMetrics().Len()-1), shownKey{session, report.Device}, report.Down)
	}
}

// instances are the names that live sessions have in service.instance.id: for each session, by the name it would have
// if it were alone.
type instances map[uint64]map[string]string

// of names a rank of a session run/rank/pid, and adds the session if a live one has that name already: two containers
// may well both have process 1. A session keeps its name.
func (n instances) of(id uint64, r *engine.Report) string {
	plain := r.Source().Instance()
	if name, ok := n[id][plain]; ok {
		return name
	}
	name := plain
	for _, names := range n {
		if names[plain] == plain {
			name = plain + "/" + engine.SessionName(id)
		}
	}
	if n[id] == nil {
		n[id] = map[string]string{}
	}
	n[id][plain] = name
	return name
}
