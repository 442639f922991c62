// Package control turns HTTP requests into answers of the receiver.
package control

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/webguard"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
)

// How long a request for traces waits for its steps, if it does not say, and at most.
const (
	traceWait    = 10 * time.Second
	maxTraceWait = time.Minute
)

// A Endpoint is the endpoint at which people ask the receiver for something.
type Endpoint struct {
	log    *zap.Logger
	mux    *http.ServeMux
	routes []route

	server   *http.Server
	listener net.Listener
	running  sync.WaitGroup
}

// A route is something to ask for, as GET / lists it.
type route struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Does   string `json:"does"`
}

// A DemandFunc has the steps of a request written, and returns what was taken once all of it is, or the context ends.
type DemandFunc func(context.Context, sample.Ask) (sample.Got, error)

// New returns a control that answers POST /trace by demand, or that there are no traces if that is nil. open opens windows. live
// serves the live page and what it links to.
func New(log *zap.Logger, demand DemandFunc, all engines, open Opener, status func(now time.Time) Status, live http.Handler) *Endpoint {
	c := &Endpoint{log: log, mux: http.NewServeMux()}
	c.handle("GET /{$}", "shows the live page to a browser, or lists what there is", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			live.ServeHTTP(w, r)
			return
		}
		c.list(w, r)
	})
	c.handle("GET /live", "gives what the live page shows, as JSON", live.ServeHTTP)
	c.handle("GET /rank", "shows the newest steps of `rank` of `run`", live.ServeHTTP)
	c.handle("GET /step", "shows step `seq` of `run` on all ranks that kept its kernels", live.ServeHTTP)
	c.handle("GET /step.pftrace", "gives that step as a trace for ui.perfetto.dev", live.ServeHTTP)
	c.handle("POST /trace", "writes the next `steps` (1) as traces, or those from `seq` on; of all ranks, or of `rank`; answers once all live ranks have closed them, or after `wait` (10s)",
		func(w http.ResponseWriter, r *http.Request) { serveTrace(w, r, demand, all, open) })
	c.handle("GET /status", "says how the sessions stand: as a page, or as JSON by Accept or ?format=json", serveStatus(status))
	c.handle("POST /yield", "has engines let go of CUPTI for `seconds` (60), so that a profiler can have it; all, or those of `rank` and `run`",
		serveYield(false, all))
	c.handle("DELETE /yield", "has them take it back now", serveYield(true, all))
	c.handle("POST /window", "traces all ranks of `run`, or of all runs, for `seconds` (5); for engines that run with KERNHES_SOFTWARE=windows", serveWindow(open))
	return c
}

// handle adds a route, to be called before Start. pattern is METHOD PATH.
func (c *Endpoint) handle(pattern, does string, h http.HandlerFunc) {
	var method, path string
	_, _ = fmt.Sscan(pattern, &method, &path)
	c.routes = append(c.routes, route{method, path, does})
	c.mux.HandleFunc(pattern, h)
}

// Start listens on endpoint, host:port. Requests may ask for its host, localhost, an address, or one of hosts.
func (c *Endpoint) Start(ctx context.Context, endpoint string, hosts ...string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", endpoint)
	if err != nil {
		return fmt.Errorf("control endpoint: %w", err)
	}
	c.listener = listener
	c.server = &http.Server{
		// A page in a browser on this host must not ask for anything.
		Handler:           webguard.Handler(c.mux, append(webguard.Endpoint(endpoint), hosts...)),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      maxTraceWait + 10*time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          zap.NewStdLog(c.log),
	}
	c.running.Go(func() {
		if err := c.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			c.log.Error("control_endpoint: the server failed", zap.Error(err))
		}
	})
	return nil
}

// Addr is where the endpoint listens.
func (c *Endpoint) Addr() net.Addr { return c.listener.Addr() }

// Shutdown ends the requests that wait, unless the context ends before. It works without Start, and twice.
func (c *Endpoint) Shutdown(ctx context.Context) error {
	if c.server == nil {
		return nil
	}
	err := c.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, c.server.Close())
	}
	c.running.Wait()
	return err
}

func (c *Endpoint) list(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Endpoints []route `json:"endpoints"`
	}{c.routes})
}

// A tracesAnswer is what POST /trace answers.
type tracesAnswer struct {
	Traces     []traceAnswer `json:"traces"`
	Complete   bool          `json:"complete"`         // all that was asked for is there, of all live ranks
	Reason     string        `json:"reason,omitempty"` // why not
	TurnedAway int           `json:"turned_away"`      // steps over the budget of spans
}

// A traceAnswer is one trace. Steps of missing ranks that close later are written.
type traceAnswer struct {
	TraceID string  `json:"trace_id"`
	Seq     uint64  `json:"seq"`
	Ranks   []int64 `json:"ranks"`
	Missing []int64 `json:"missing_ranks,omitempty"` // live ranks of the run whose step did not close meanwhile
}

func serveTrace(w http.ResponseWriter, r *http.Request, demand DemandFunc, all engines, open Opener) {
	if demand == nil {
		refuse(w, http.StatusServiceUnavailable, errNoTraces)
		return
	}
	ask, wait, err := parseAsk(r.URL.Query())
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if !slices.ContainsFunc(all.Standings(), func(s fleet.Standing) bool { return s.Connected }) {
		refuse(w, http.StatusServiceUnavailable, errNoEngine)
		return
	}
	if open != nil {
		_, _ = open(time.Now(), "", min(wait, windowForTrace), "POST /trace asks for steps") // an error: no engine needs one
	}
	got, err := demand(ctx, ask)
	switch {
	case errors.Is(err, sample.ErrBusy):
		refuse(w, http.StatusTooManyRequests, err)
	case err != nil:
		refuse(w, http.StatusInternalServerError, err)
	default:
		a := tracesOf(got)
		a.Complete, a.Reason = a.completeness(ask, wait)
		answer(w, http.StatusOK, a)
	}
}

// tracesOf gathers what was taken by trace.
func tracesOf(got sample.Got) tracesAnswer {
	a := tracesAnswer{Traces: []traceAnswer{}, TurnedAway: got.Away}
	for _, taken := range got.Taken {
		id := hex.EncodeToString(taken.Trace[:])
		i := slices.IndexFunc(a.Traces, func(t traceAnswer) bool { return t.TraceID == id })
		if i < 0 {
			i = len(a.Traces)
			a.Traces = append(a.Traces, traceAnswer{TraceID: id, Seq: taken.Seq})
		}
		if t := &a.Traces[i]; !slices.Contains(t.Ranks, taken.Rank) {
			t.Ranks = append(t.Ranks, taken.Rank)
		}
	}
	for _, missing := range got.Missing {
		id := hex.EncodeToString(missing.Trace[:])
		if i := slices.IndexFunc(a.Traces, func(t traceAnswer) bool { return t.TraceID == id }); i >= 0 {
			a.Traces[i].Missing = append(a.Traces[i].Missing, missing.Rank)
		}
	}
	return a
}

// completeness says whether an answer has all that was asked for, or why not.
func (a *tracesAnswer) completeness(ask sample.Ask, wait time.Duration) (complete bool, reason string) {
	missing := slices.ContainsFunc(a.Traces, func(t traceAnswer) bool { return len(t.Missing) > 0 })
	switch {
	case len(a.Traces) >= ask.Steps && !missing:
		return true, ""
	case a.TurnedAway > 0:
		return false, fmt.Sprintf("%d steps were over the budget of spans (traces::spans_per_second)", a.TurnedAway)
	case len(a.Traces) >= ask.Steps:
		return false, fmt.Sprintf("missing_ranks closed no step of their traces within %v", wait)
	case ask.Seq != nil || ask.Rank != nil:
		return false, fmt.Sprintf("%d of %d steps of this seq and rank closed within %v", len(a.Traces), ask.Steps, wait)
	}
	return false, fmt.Sprintf("%d of %d steps closed within %v: GET /status says whether engines have steps", len(a.Traces), ask.Steps, wait)
}

// parseAsk reads the parameters of POST /trace. Its errors name the parameter.
func parseAsk(q url.Values) (ask sample.Ask, wait time.Duration, err error) {
	ask.Steps, wait = 1, traceWait
	for _, name := range slices.Sorted(maps.Keys(q)) {
		values := q[name]
		if len(values) != 1 {
			return ask, 0, fmt.Errorf("%q: given %d times", name, len(values))
		}
		value := values[0]
		switch name {
		case "steps":
			if ask.Steps, err = strconv.Atoi(value); err != nil || ask.Steps < 1 || ask.Steps > sample.MaxSteps {
				return ask, 0, fmt.Errorf("steps: %q: want 1 to %d", value, sample.MaxSteps)
			}
		case "seq":
			seq, err := strconv.ParseUint(value, 10, 63)
			if err != nil {
				return ask, 0, fmt.Errorf("seq: %q: want a number from 0", value)
			}
			ask.Seq = &seq
		case "rank":
			rank, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return ask, 0, fmt.Errorf("rank: %q: want a number", value)
			}
			ask.Rank = &rank
		case "wait":
			if wait, err = time.ParseDuration(value); err != nil || wait < 0 || wait > maxTraceWait {
				return ask, 0, fmt.Errorf("wait: %q: want a time up to %v", value, maxTraceWait)
			}
		default:
			return ask, 0, fmt.Errorf("%q: want steps, seq, rank or wait", name)
		}
	}
	return ask, wait, nil
}

// errNoTraces says that the receiver has no traces pipeline.
var errNoTraces = errors.New("the receiver is in no traces pipeline")

// errNoEngine says that there is nothing to trace.
var errNoEngine = errors.New("no engine is connected, so there are no steps to trace")

// refuse answers an error.
func refuse(w http.ResponseWriter, status int, err error) {
	answer(w, status, struct {
		Error string `json:"error"`
	}{err.Error()})
}

// answer writes JSON. A client that has gone does not hear it.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
