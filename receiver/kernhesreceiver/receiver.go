package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
)

// A kernhesReceiver listens for engines and exports what their accounts say.
type kernhesReceiver struct {
	cfg       *Config
	set       receiver.Settings
	obs       *receiverhelper.ObsReport
	telemetry *metadata.Telemetry
	newEngine func(wire.Hello) account
	rules     *rules.Files
	starts    *identity.Starts
	guard     guard
	begun     time.Time
	forget    func() // the factory's, when it is shut down

	// The pipelines that the receiver is in; nil: it is in no such.
	metrics consumer.Metrics
	traces  consumer.Traces
	logs    consumer.Logs

	tracer   *tracer  // nil: there is no traces pipeline
	control  *control // nil: there is no control endpoint
	table    *table
	dump     *dump // nil: none
	listener net.Listener
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}

	retryDelay time.Duration // see defaultRetryDelay

	trouble trouble // what could not be delivered

	exporting sync.Mutex
	last      []pmetric.Metrics // final numbers of ended sessions that no consumer has taken yet
	names     instances
	hush      hush
	shown     shown
	endings   endings
	refusals  refusals
	left      map[uint64]*losses // of sessions that the receiver before had, and that have not come back; the table's lock guards it
}

// maxLast bounds the final numbers that wait for a consumer.
const maxLast = 256

// newReceiver returns a receiver that is in no pipeline yet. newEngine begins the account of an engine process; nil: as
// the configuration says.
func newReceiver(set receiver.Settings, cfg *Config, newEngine func(wire.Hello) account) (*kernhesReceiver, error) {
	obs, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: set.ID, Transport: string(cfg.Transport), LongLivedCtx: true, ReceiverCreateSettings: set,
	})
	if err != nil {
		return nil, err
	}
	telemetry, err := metadata.NewTelemetry(set.TelemetrySettings)
	if err != nil {
		return nil, err
	}
	return &kernhesReceiver{
		cfg: cfg, set: set, obs: obs, telemetry: telemetry, newEngine: newEngine, rules: &rules.Files{}, starts: identity.NewStarts(), forget: func() {},
		table: newTable(cfg.MaxSessions), conns: map[net.Conn]struct{}{}, names: instances{},
		retryDelay: defaultRetryDelay,
	}, nil
}

// Start opens the dump and the endpoint. It is called for each signal, and starts once.
func (r *kernhesReceiver) Start(ctx context.Context, host component.Host) error {
	if r.stop != nil {
		return nil
	}
	var err error
	if r.guard, err = newGuard(ctx, r.cfg, host); err != nil {
		return err
	}
	r.begun = time.Now()
	if r.traces != nil {
		r.tracer = newTracer(r.cfg.Traces.sampling(), r.cfg.Traces.Layout, r.set.BuildInfo.Version, r.traces, r.obs, r.telemetry)
		r.tracer.start(r.cfg.CollectionInterval)
	}
	if r.newEngine == nil {
		var err error
		if r.rules, err = rules.Open(r.cfg.ClassTable, r.cfg.Manifest); err != nil {
			return err
		}
		r.newEngine = newEngines(r.set.Logger, r.cfg, r.logs != nil, r.tracer, r.rules, r.starts)
	}
	if r.cfg.Dump != "" {
		d, past, err := openDump(r.cfg.Dump)
		if err != nil {
			return err
		}
		r.dump = d
		// The table forgets those that it was told of first.
		for _, id := range slices.SortedFunc(maps.Keys(past), func(a, b uint64) int { return cmp.Compare(past[a].last, past[b].last) }) {
			r.table.remember(id, past[id])
		}
	}
	listener, err := listen(ctx, r.cfg)
	if err != nil {
		return errors.Join(err, r.closeDump())
	}
	r.listener = listener
	r.takeOver()
	r.openStarts()
	r.listenForControl(ctx)
	running, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.running.Go(func() { r.accept(running) })
	r.running.Go(func() { r.every(running, r.cfg.CollectionInterval, r.export) })
	r.running.Go(func() { r.every(running, rules.Interval, func(context.Context) { r.pollRules() }) })
	// A quarter, so that a session waits at most 1.25 times reconnect_timeout.
	r.running.Go(func() { r.every(running, max(r.cfg.ReconnectTimeout/4, time.Millisecond), r.sweep) })
	return nil
}

// Shutdown closes everything and exports once more. Sessions are not ended: their engines keep what was not acknowledged.
func (r *kernhesReceiver) Shutdown(ctx context.Context) error {
	if r.stop == nil {
		return nil
	}
	r.forget()
	r.stop()
	r.stop = nil
	err := r.listener.Close()
	r.mu.Lock()
	for c := range r.conns {
		_ = c.Close()
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() { r.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
	r.export(ctx)
	r.handOver(time.Now())
	if r.control != nil {
		err = errors.Join(err, r.control.Shutdown(ctx))
	}
	if r.tracer != nil {
		err = errors.Join(err, r.tracer.shutdown(ctx))
	}
	return errors.Join(err, r.closeDump(), r.starts.Close())
}

// openStarts reads which starts there were. Engines are heard without that, so a file that cannot be read or written is no
// reason not to start.
func (r *kernhesReceiver) openStarts() {
	path := r.cfg.runsFile()
	if path == "" {
		return
	}
	skipped, err := r.starts.Remember(path)
	if err != nil {
		r.set.Logger.Error("runs are not remembered over a restart of the collector (runs_file)", zap.Error(err))
	}
	if skipped > 0 {
		r.set.Logger.Warn("lines of runs_file could not be read", zap.String("file", path), zap.Int("lines", skipped))
	}
}

// listenForControl opens the control endpoint. Engines are heard without it, so it is no reason not to start: a second
// collector on a host may have it.
func (r *kernhesReceiver) listenForControl(ctx context.Context) {
	if r.cfg.ControlEndpoint == "" {
		return
	}
	var demand func(context.Context, sample.Ask) (sample.Got, error)
	if r.tracer != nil {
		demand = func(ctx context.Context, ask sample.Ask) (sample.Got, error) {
			if !r.anyConnected() {
				return sample.Got{}, errNoEngine
			}
			return r.tracer.demand(ctx, ask)
		}
	}
	c := newControl(r.set.Logger, demand)
	c.handle("GET /status", "says how the sessions stand: as a page, or as JSON by Accept or ?format=json",
		serveStatus(func() status { return r.status(time.Now()) }))
	c.handle("POST /yield", "has engines let go of CUPTI for `seconds` (60), so that a profiler can have it; all, or those of `rank` and `run`",
		serveYield(false, r.yield))
	c.handle("DELETE /yield", "has them take it back now", serveYield(true, r.yield))
	if err := c.Start(ctx, r.cfg.ControlEndpoint); err != nil {
		r.set.Logger.Warn("no control endpoint (control_endpoint)", zap.Error(err))
		return
	}
	r.control = c
}

// anyConnected reports whether an engine is.
func (r *kernhesReceiver) anyConnected() bool {
	return slices.ContainsFunc(r.table.all(), func(s *session) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.conn != nil
	})
}

func (r *kernhesReceiver) closeDump() error {
	if r.dump == nil {
		return nil
	}
	err := r.dump.close()
	r.dump = nil
	return err
}

// every calls f until the context ends.
func (r *kernhesReceiver) every(ctx context.Context, interval time.Duration, f func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// accept serves each connection in a goroutine of its own.
func (r *kernhesReceiver) accept(ctx context.Context) {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors, mostly: others may be freed meanwhile.
			r.set.Logger.Error("accept", zap.Error(err))
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			continue
		}
		peer := peerName(conn)
		log := r.set.Logger.With(zap.String("peer", peer))
		if err := checkPeer(conn, r.cfg.AllowedUIDs); err != nil {
			_ = conn.Close()
			r.turnedAway(ctx, log, peer, "uid", err.Error())
			continue
		}
		if !r.admit(ctx, conn) {
			_ = conn.Close()
			r.turnedAway(ctx, log, peer, "connections", "max_connections are open")
			continue
		}
		r.telemetry.ConnectionsAccepted.Add(ctx, 1)
		r.running.Go(func() {
			r.telemetry.Connections.Add(ctx, 1)
			defer r.telemetry.Connections.Add(ctx, -1)
			defer r.dismiss(conn)
			l := &link{r: r, conn: r.guard.secure(conn), socket: conn, peer: peer, log: log}
			l.serve(ctx)
		})
	}
}

// admit counts a connection against max_connections.
func (r *kernhesReceiver) admit(ctx context.Context, c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.conns) >= r.cfg.MaxConnections || ctx.Err() != nil {
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *kernhesReceiver) dismiss(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// turnedAway counts that a peer was refused, and says why, if that was not said within a minute.
func (r *kernhesReceiver) turnedAway(ctx context.Context, log *zap.Logger, peer, reason, text string) {
	r.telemetry.ConnectionsRefused.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
	r.refusals.warn(log, refusal{peer, text}, "connection refused", zap.String("reason", text))
}

// pollRules reads the user's files that have changed, and logs each change once.
func (r *kernhesReceiver) pollRules() {
	for _, c := range r.rules.Poll() {
		if c.Err != nil {
			r.set.Logger.Warn(c.Setting+" is refused, the last good one stays", zap.Error(c.Err))
		} else {
			r.set.Logger.Info(c.Setting+" has changed: all sessions go by it from now on", zap.String("version", c.Version))
		}
	}
}

// attach gives a session to a connection. An older connection of the session is closed first, and its reader waited for.
// It returns nil if there are too many sessions.
func (r *kernhesReceiver) attach(ctx context.Context, l *link, hello wire.Hello) (*session, error) {
	r.pollRules() // not under the lock of the session table
	for {
		s, known := r.table.find(hello.Session, func(past remembered) *session {
			r.telemetry.Sessions.Add(ctx, 1)
			s := newSession(hello.Session, r.newEngine(hello), past)
			s.lost = r.claim(hello.Session)
			return s
		})
		if s == nil {
			return nil, nil
		}
		s.mu.Lock()
		if known && s.conn != nil {
			r.telemetry.SessionsTakenOver.Add(ctx, 1)
			_ = s.conn.Close()
		}
		s.mu.Unlock()
		select {
		case <-s.turn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.mu.Lock()
		if !s.over {
			s.conn = l.conn
			s.mu.Unlock()
			r.starts.Arrive(s.id, hello.Info)
			return s, nil
		}
		s.mu.Unlock()
		s.turn <- struct{}{}
	}
}

// detach gives the session back when its connection has ended.
func (r *kernhesReceiver) detach(l *link) {
	s := l.session
	r.starts.Leave(s.id)
	s.mu.Lock()
	s.conn = nil
	s.left = time.Now()
	s.mu.Unlock()
	s.turn <- struct{}{}
}

// sweep ends the sessions whose engines did not come back.
func (r *kernhesReceiver) sweep(ctx context.Context) {
	for _, s := range r.table.all() {
		select {
		case <-s.turn:
		default:
			continue // connected
		}
		s.mu.Lock()
		gone := !s.over && !s.left.IsZero() && time.Since(s.left) >= r.cfg.ReconnectTimeout
		s.mu.Unlock()
		if gone {
			r.set.Logger.Warn("engine is gone", zap.String("session", engine.SessionName(s.id)))
			_, _ = r.finish(ctx, s, true) // what went wrong was logged and counted there
		}
		s.turn <- struct{}{}
	}
}

// finish ends a session and exports its numbers for the last time. It returns the frame that may be acknowledged.
// The caller has the session's turn.
func (r *kernhesReceiver) finish(ctx context.Context, s *session, gone bool) (uint64, error) {
	s.mu.Lock()
	s.engine.End(gone)
	s.collect()
	s.mu.Unlock()
	failed := r.deliverLast(ctx, s)
	s.mu.Lock()
	reports, err := s.finish(r.dump, gone, failed)
	unwritten, frame := len(s.lines), s.acked
	s.mu.Unlock()
	r.delivered(ctx, unwritten, err)
	r.table.end(s, gone)
	r.telemetry.Sessions.Add(ctx, -1)

	numbers := pmetric.NewMetrics()
	now := time.Now()
	r.exporting.Lock()
	r.hush.listen(r.set.Logger, append(r.live(now), liveSession{reports: reports}))
	for i := range reports {
		reports[i].Down = whyEnded(gone)
	}
	r.append(numbers, s.id, reports, now)
	r.shown.end(s.id, now)
	r.endings.add(&reports[0], gone)
	delete(r.names, s.id)
	r.last = append(r.last, numbers)
	r.last = r.last[max(0, len(r.last)-maxLast):]
	r.exporting.Unlock()
	r.export(ctx)
	return frame, err
}

// export gives the consumer the numbers of all live sessions, and those of ended ones that it has not had.
func (r *kernhesReceiver) export(ctx context.Context) {
	r.exporting.Lock()
	defer r.exporting.Unlock()
	for len(r.last) > 0 {
		if err := r.consume(ctx, r.last[0]); err != nil && !consumererror.IsPermanent(err) {
			return // the next interval brings them, and newer numbers of the live ones
		}
		r.last = r.last[1:]
	}
	if err := r.consume(ctx, r.collect(time.Now())); err != nil {
		r.set.Logger.Debug("metrics were refused; the next interval's include them", zap.Error(err))
	}
}

func (r *kernhesReceiver) consume(ctx context.Context, m pmetric.Metrics) error {
	points := m.DataPointCount()
	if points == 0 || r.metrics == nil {
		return nil
	}
	ctx = r.obs.StartMetricsOp(ctx)
	err := r.metrics.ConsumeMetrics(ctx, m)
	r.obs.EndMetricsOp(ctx, metadata.Type.String(), points, err)
	return err
}

// collect is the numbers of all live sessions. The caller holds exporting.
func (r *kernhesReceiver) collect(now time.Time) pmetric.Metrics {
	to := pmetric.NewMetrics()
	report := receiverReport{since: r.begun}
	sessions := r.live(now)
	r.hush.listen(r.set.Logger, sessions)
	ranks := map[string]uint64{} // connected sessions by what they claim to be
	for _, s := range sessions {
		if s.connected {
			report.connected++
		} else {
			report.waiting++
		}
		for i := range s.reports {
			if one := &s.reports[i]; s.connected && !one.Unplaced && !one.Guessed && one.Rank != engine.NoRank {
				ranks[one.ClaimRank()]++
			}
		}
		r.append(to, s.id, s.reports, now)
		r.endings.live(&s.reports[0])
	}
	r.shown.ended(to, now)
	for _, n := range ranks {
		if n > 1 {
			report.conflicts += n
		}
	}
	report.ended = r.endings.take()
	appendReceiver(to, report, r.set.ID.String(), r.set.BuildInfo.Version, now)
	return to
}

// append appends a session's ranks. The caller holds exporting.
func (r *kernhesReceiver) append(to pmetric.Metrics, session uint64, reports []engine.Report, now time.Time) {
	for i := range reports {
		report := &reports[i]
		if report.Unplaced {
			continue
		}
		appendRank(to, report, r.hush.quiet[report.Info["run"]], r.names.of(session, report), r.set.BuildInfo.Version, now)
		r.shown.show(to, to.ResourceMetrics().At(to.ResourceMetrics().Len()-1), shownKey{session, report.Device}, report.Down)
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
