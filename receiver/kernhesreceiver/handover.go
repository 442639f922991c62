package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"net"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"
)

// A handover is what a receiver that is shut down leaves for the next one on its endpoint. When the Collector reloads its
// configuration, it makes a new receiver in the same process, and engines connect anew.
//
//	Shutdown: leave ──▶ handovers ──▶ Start: take ──▶ a session comes back: claim ──▶ reports go on from its losses
type handover struct {
	endpoint string
	begun    time.Time
	bye      uint64
	gone     uint64
	endings  endings
	last     []pmetric.Metrics
	sessions map[uint64]*losses
}

// maxHandovers bounds the endpoints whose receivers are shut down and did not come back.
const maxHandovers = 16

// handovers are of all receivers of this process, oldest first.
var handovers struct {
	mu  sync.Mutex
	all []*handover
}

// leave keeps h for the next receiver of its endpoint.
func leave(h *handover) {
	handovers.mu.Lock()
	defer handovers.mu.Unlock()
	handovers.all = append(handovers.all, h)
	handovers.all = slices.Delete(handovers.all, 0, max(0, len(handovers.all)-maxHandovers))
}

// take gives what was left for an endpoint, or nil.
func take(endpoint net.Addr) *handover {
	handovers.mu.Lock()
	defer handovers.mu.Unlock()
	i := slices.IndexFunc(handovers.all, func(h *handover) bool { return h.endpoint == nameOf(endpoint) })
	if i < 0 {
		return nil
	}
	h := handovers.all[i]
	handovers.all = slices.Delete(handovers.all, i, i+1)
	return h
}

func nameOf(endpoint net.Addr) string { return endpoint.Network() + " " + endpoint.String() }

// handOver leaves what this receiver has counted. Nothing of it runs any more but the control endpoint.
func (r *kernhesReceiver) handOver(now time.Time) {
	h := &handover{endpoint: nameOf(r.listener.Addr()), begun: r.begun, endings: r.endings, last: r.last, sessions: map[uint64]*losses{}}
	for id, l := range r.left {
		if now.Sub(l.left) < r.cfg.ReconnectTimeout { // it may come back yet
			h.sessions[id] = l
		}
	}
	h.bye, h.gone = r.table.ended()
	for _, s := range r.table.all() {
		s.mu.Lock()
		h.sessions[s.id] = &losses{left: now, frame: s.engine.Received(), was: onlyLosses(s.reports())}
		s.mu.Unlock()
	}
	leave(h)
}

// takeOver goes on from what the receiver before left.
func (r *kernhesReceiver) takeOver() {
	if h := take(r.listener.Addr()); h != nil {
		r.begun, r.endings, r.last, r.left = h.begun, h.endings, h.last, h.sessions
		r.table.bye, r.table.gone = h.bye, h.gone
	}
}

// claim gives what was counted of a session before, if it was. Whoever has the table's lock calls it.
func (r *kernhesReceiver) claim(session uint64) *losses {
	l := r.left[session]
	delete(r.left, session)
	return l
}

// losses are what was lost of a session, as the receiver before counted it. What the engine sends again, up to the last frame
// that receiver had, is counted in it already.
type losses struct {
	left  time.Time
	frame uint64          // the last one that was received
	was   []engine.Report // what was counted then
	again []engine.Report // of it, what this receiver has counted anew
	past  bool            // all of that has come
}

// onlyLosses are reports without what is not needed here.
func onlyLosses(reports []engine.Report) (only []engine.Report) {
	for i := range reports {
		r := &reports[i]
		only = append(only, engine.Report{
			Whole: r.Whole, Device: r.Device, SinceNS: r.SinceNS, LossSinceNS: r.LossSinceNS,
			Dropped: r.Dropped, Incomplete: r.Incomplete, Limited: r.Limited, Missing: r.Missing,
		})
	}
	return only
}

// next tells which frame the engine takes next; 0: that is not known, or it has no number.
func (l *losses) next(number uint64, e account) {
	if l != nil && !l.past && (e.Received() >= l.frame || number > l.frame) {
		l.past, l.again = true, onlyLosses(e.Reports())
	}
}

// add adds what was lost before to reports of now.
func (l *losses) add(reports []engine.Report) {
	if l == nil {
		return
	}
	again := l.again
	if !l.past {
		again = slices.Clone(reports)
	}
	for i := range reports {
		r := &reports[i]
		same := func(o *engine.Report) bool { return r.Whole == o.Whole && (r.Whole || r.Device == o.Device) }
		before, counted := find(l.was, func(o *engine.Report) bool { return o.Device == r.Device }), find(again, same)
		r.LossSinceNS = l.was[0].LossSince()
		r.Dropped = goOn(before.Dropped, counted.Dropped, r.Dropped)
		r.Incomplete = goOn(before.Incomplete, counted.Incomplete, r.Incomplete)
		if r.Whole {
			whole := find(l.was, func(o *engine.Report) bool { return o.Whole })
			r.Limited = goOn(whole.Limited, counted.Limited, r.Limited)
			r.Missing += whole.Missing - counted.Missing
		}
	}
}

// goOn is counts of before, and what was counted now beyond what came again.
func goOn(before, again, now map[string]uint64) map[string]uint64 {
	sum := map[string]uint64{}
	for key, n := range before {
		sum[key] = n
	}
	for key, n := range now {
		if more := n - min(n, again[key]); more > 0 {
			sum[key] += more
		}
	}
	return sum
}

// find is the first report that is wanted, or an empty one.
func find(reports []engine.Report, wanted func(*engine.Report) bool) *engine.Report {
	for i := range reports {
		if wanted(&reports[i]) {
			return &reports[i]
		}
	}
	return &engine.Report{}
}
