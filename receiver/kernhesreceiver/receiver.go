package kernhesreceiver

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/control"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/handover"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/logs"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/orders"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/page"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/server"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/session"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/traces"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/watch"
)

// A kernhesReceiver wires the rooms: it starts and ends them, and has no logic of its own.
type kernhesReceiver struct {
	cfg       *Config
	set       receiver.Settings
	obs       *receiverhelper.ObsReport
	telemetry *metadata.Telemetry
	newEngine func(wire.Hello) session.Account // nil: as the configuration says
	forget    func()                           // the factory's, when the receiver is shut down

	// The pipelines that the receiver is in; nil: it is in no such.
	metrics consumer.Metrics
	traces  consumer.Traces
	logs    consumer.Logs

	rules    *rules.Files
	starts   *identity.Starts
	numbers  *metrics.Exporter
	tracer   *traces.Sink // nil: there is no traces pipeline
	watch    *watch.Feed  // nil: there is no control endpoint, so no page
	orders   *orders.Desk
	sessions *session.Sessions
	server   *server.Server
	control  *control.Endpoint // nil: there is no control endpoint

	stop    context.CancelFunc // nil: it does not run
	running sync.WaitGroup

	retryDelay time.Duration // 0: the default
}

// left is what a receiver that is shut down leaves for the next one on its endpoint, to which engines connect anew.
type left struct {
	numbers  metrics.Left
	sessions session.Left
}

// handovers are of all receivers of this process.
var handovers handover.Registry[left]

// newReceiver returns a receiver that is in no pipeline yet. newEngine begins the account of an engine process; nil: as
// the configuration says.
func newReceiver(set receiver.Settings, cfg *Config, newEngine func(wire.Hello) session.Account) (*kernhesReceiver, error) {
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
		cfg: cfg, set: set, obs: obs, telemetry: telemetry, newEngine: newEngine, forget: func() {},
		rules: &rules.Files{}, starts: identity.NewStarts(),
	}, nil
}

// Start opens the rooms and the endpoint. It is called for each signal, and starts once. After an error nothing runs.
func (r *kernhesReceiver) Start(ctx context.Context, host component.Host) error {
	if r.stop != nil {
		return nil
	}
	if err := r.open(ctx, host); err != nil {
		return errors.Join(err, r.close(ctx))
	}
	running, stop := context.WithCancel(context.Background())
	r.stop = stop
	if r.tracer != nil {
		r.tracer.Start(r.cfg.CollectionInterval)
	}
	r.server.Serve()
	r.running.Go(func() { every(running, r.cfg.CollectionInterval, r.export) })
	if r.watch != nil {
		r.running.Go(func() { r.watch.Poll(running, r.live) })
	}
	r.running.Go(func() { every(running, orders.Tick, func(context.Context) { r.orders.Look(time.Now()) }) })
	r.running.Go(func() { every(running, rules.Interval, func(context.Context) { r.pollRules() }) })
	// A quarter, so that a session waits at most 1.25 times reconnect_timeout.
	r.running.Go(func() { every(running, max(r.cfg.ReconnectTimeout/4, time.Millisecond), r.sessions.Sweep) })
	return nil
}

// open makes the rooms, lower ones first. Nothing runs yet but the control endpoint.
func (r *kernhesReceiver) open(ctx context.Context, host component.Host) (err error) {
	log := r.set.Logger
	r.numbers = metrics.NewExporter(log, r.obs, r.set.ID.String(), r.set.BuildInfo.Version)
	r.numbers.Start(r.metrics, time.Now())
	if r.traces != nil {
		r.tracer = traces.New(r.cfg.Traces.sampling(), r.cfg.Traces.Layout, r.set.BuildInfo.Version, r.traces, r.obs, r.telemetry)
	}
	var sink engine.Sink // nil: nobody wants final steps
	if r.tracer != nil {
		sink = r.tracer
	}
	if r.cfg.ControlEndpoint != "" {
		r.watch = watch.New(sink)
		sink = r.watch
	}
	newEngine := r.newEngine
	if newEngine == nil {
		if r.rules, err = rules.Open(r.cfg.ClassTable, r.cfg.Manifest); err != nil {
			return err
		}
		newEngine = newEngines(log, r.cfg, r.logs != nil, sink, r.stepTook, r.rules, r.starts)
	}
	r.sessions, err = session.Open(session.Settings{
		Log: log, Telemetry: r.telemetry, Limit: r.cfg.MaxSessions, PerMinute: r.cfg.MaxNewSessions, ReconnectTimeout: r.cfg.ReconnectTimeout, RetryDelay: r.retryDelay,
		Starts: r.starts, Logs: logs.New(log, r.logs, r.obs, r.telemetry), Dump: r.cfg.Dump, NewEngine: newEngine, BeforeEngine: r.pollRules,
		Ended: func(ctx context.Context, session uint64, last []engine.Report, gone bool) {
			r.numbers.End(ctx, session, last, gone)
			if r.watch != nil {
				r.watch.End(time.Now(), last, gone)
			}
		},
	})
	if err != nil {
		return err
	}
	r.orders = orders.New(log, r.sessions, r.cfg.Windows.settings(), time.Now())
	r.server, err = server.Listen(ctx, server.Settings{
		Log: log, Telemetry: r.telemetry, Sessions: r.sessions, Address: r.cfg.AddrConfig, SocketMode: fs.FileMode(r.cfg.SocketMode),
		AllowedUIDs: r.cfg.AllowedUIDs, TLS: r.cfg.TLS, Auth: r.cfg.Auth, HandshakeTimeout: r.cfg.HandshakeTimeout,
		SilenceTimeout: r.cfg.SilenceTimeout, MaxConnections: r.cfg.MaxConnections,
	}, host)
	if err != nil {
		return err
	}
	if h, ok := handovers.Take(r.server.Addr()); ok {
		r.numbers.TakeOver(h.numbers)
		r.sessions.TakeOver(h.sessions)
	}
	r.openStarts()
	r.listenForControl(ctx)
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
	address := r.server.Addr()
	err := r.server.Close(ctx)
	done := make(chan struct{})
	go func() { r.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	if ctx.Err() != nil {
		return err
	}
	r.export(ctx)
	handovers.Leave(address, left{r.numbers.Leave(), r.sessions.Leave(time.Now())})
	r.server = nil
	return errors.Join(err, r.close(ctx))
}

// close closes the rooms that are open. Nothing may run any more but the control endpoint and the tracer.
func (r *kernhesReceiver) close(ctx context.Context) (err error) {
	if r.server != nil {
		err = r.server.Close(ctx)
	}
	if r.control != nil {
		err = errors.Join(err, r.control.Shutdown(ctx))
	}
	if r.tracer != nil {
		err = errors.Join(err, r.tracer.Shutdown(ctx))
	}
	if r.sessions != nil {
		err = errors.Join(err, r.sessions.Close())
	}
	return errors.Join(err, r.starts.Close())
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
		r.set.Logger.Error("runs_file: cannot be used, so runs are forgotten when the collector restarts", zap.Error(err))
	}
	if skipped > 0 {
		r.set.Logger.Warn("runs_file: some lines could not be read", zap.String("file", path), zap.Int("lines", skipped))
	}
}

// listenForControl opens the control endpoint. Engines are heard without it, so it is no reason not to start: a second
// collector on a host may have it.
func (r *kernhesReceiver) listenForControl(ctx context.Context) {
	if r.cfg.ControlEndpoint == "" {
		return
	}
	var demand control.DemandFunc
	if r.tracer != nil {
		demand = r.tracer.Demand
	}
	c := control.New(r.set.Logger, demand, r.sessions, r.orders.Open, r.status, page.Handler(r.watch.History, time.Now))
	if err := c.Start(ctx, r.cfg.ControlEndpoint, r.cfg.ControlHosts...); err != nil {
		r.set.Logger.Warn("control_endpoint: cannot listen, so there is no live page and no status", zap.Error(err))
		return
	}
	r.control = c
}

// status says how the receiver and its live sessions stand.
func (r *kernhesReceiver) status(now time.Time) control.Status {
	state := control.Receiver{
		Since: r.numbers.Begun, Version: r.set.BuildInfo.Version, Rules: r.rules.Latest().Classes.Version, Refused: r.rules.Refused(),
	}
	state.Bye, state.Gone = r.sessions.Ended()
	if t, ok := r.sessions.Trouble(); ok {
		state.Delivery = control.NewDelivery(t.Error, t.Since, t.Refused)
	}
	return control.NewStatus(now, state, r.live(now))
}

// pollRules reads the user's files that have changed, and logs each change once.
func (r *kernhesReceiver) pollRules() {
	for _, c := range r.rules.Poll() {
		if c.Err != nil {
			r.set.Logger.Warn(c.Setting+" is refused, the last good one stays", zap.Error(c.Err))
		} else {
			r.set.Logger.Info(c.Setting+": the file has changed, and all sessions use it from now on", zap.String("version", c.Version))
		}
	}
}

// export exports the numbers of all live sessions, and those of ended ones that the consumer has not had.
func (r *kernhesReceiver) export(ctx context.Context) { r.numbers.Export(ctx, r.live) }

// live is the sessions that have not ended, with what windows cost them.
func (r *kernhesReceiver) live(now time.Time) []fleet.Session {
	return r.orders.Annotate(r.sessions.Live(now))
}

// stepTook hands on what a step took. Engines begin after the desk is there.
func (r *kernhesReceiver) stepTook(s engine.StepTime) { r.orders.Took(s) }

// every calls f until the context ends.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) {
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
