package kernwaitsconnector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/behaviour"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/diverge"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/ledger"
	"github.com/kernhes/kernhes/connector/kernwaitsconnector/internal/pairing"
	"github.com/kernhes/kernhes/internal/webguard"
)

// shownCalls is how many calls the status lists of a run.
const shownCalls = 20

// A status is the answer to GET /status.
type status struct {
	StepsPending int         `json:"steps_pending"`
	MemoryBytes  int         `json:"memory_bytes"`
	Runs         []runStatus `json:"runs"`
}

// A runStatus is what is known of a run.
type runStatus struct {
	Run      string              `json:"run"`
	Problems []string            `json:"problems"`
	Ranks    []rankStatus        `json:"ranks"`
	Calls    []*ledger.Call      `json:"calls"`    // whose meetings took longest
	Families []familyStatus      `json:"families"` // of calls, whose kernels took longest
	Diverged []divergence        `json:"diverged"`
	Unlike   []behaviour.Finding `json:"behave_unlike_their_class"`
}

// A rankStatus is what is known of a rank.
type rankStatus struct {
	Rank  int64             `json:"rank"`
	Host  string            `json:"host"`
	Calls map[string]uint64 `json:"calls"` // by outcome
}

// A familyStatus is calls that differ in numbers only, with what their kernels take a step in the mean, of the fastest and the
// slowest rank.
type familyStatus struct {
	Program string  `json:"program"`
	Calls   string  `json:"calls"`
	Ranks   int     `json:"ranks"`
	Fastest int64   `json:"fastest_rank"`
	Least   float64 `json:"fastest_ns_a_step"`
	Slowest int64   `json:"slowest_rank"`
	Most    float64 `json:"slowest_ns_a_step"`
}

// family is what the status says of a family.
func family(f *ledger.Family) familyStatus {
	s := familyStatus{Program: f.Program, Calls: f.Calls, Ranks: len(f.Ranks), Fastest: -1, Slowest: -1}
	for rank, r := range f.Ranks {
		mean := float64(r.NS) / float64(max(r.Steps, 1))
		if s.Fastest < 0 || mean < s.Least || mean == s.Least && rank < s.Fastest {
			s.Fastest, s.Least = rank, mean
		}
		if s.Slowest < 0 || mean > s.Most || mean == s.Most && rank < s.Slowest {
			s.Slowest, s.Most = rank, mean
		}
	}
	return s
}

// A divergence is a step of a rank that did something else than the others of its group.
type divergence struct {
	Rank       int64  `json:"rank"`
	Seq        int64  `json:"seq"`
	Program    string `json:"program"`
	Call       string `json:"call"`
	Difference string `json:"difference"`
	Standing   bool   `json:"standing"`
}

// status is all that is known now.
func (c *waitsConnector) status() status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := status{Runs: []runStatus{}}
	s.StepsPending, s.MemoryBytes = c.comparison.pairing.Pending()
	for _, run := range c.comparison.pairing.Runs() {
		s.Runs = append(s.Runs, c.comparison.run(run).status(run))
	}
	return s
}

func (r *runState) status(run *pairing.Run) runStatus {
	s := runStatus{Run: run.Name, Problems: []string{}, Diverged: []divergence{}, Calls: r.ledger.Calls(shownCalls), Unlike: r.watcher.Findings(shownCalls)}
	for _, f := range r.ledger.Longest(shownCalls) {
		s.Families = append(s.Families, family(f))
	}
	for _, rank := range run.Ranks() {
		counts := r.ledger.Rank(rank.ID)
		one := rankStatus{Rank: rank.ID, Host: rank.Host, Calls: map[string]uint64{}}
		for o, n := range counts.Calls {
			if n > 0 {
				one.Calls[outcomes[o]] = n
			}
		}
		s.Ranks = append(s.Ranks, one)
		s.Problems = append(s.Problems, problems(rank.ID, counts)...)
	}
	for i := len(r.recent) - 1; i >= 0; i-- {
		f := &r.recent[i]
		s.Diverged = append(s.Diverged, divergence{f.Rank.ID, f.Seq, f.Program, f.Call, diverge.Names[f.Difference], f.Standing})
	}
	for key, n := range r.differ {
		s.Problems = append(s.Problems, fmt.Sprintf("rank %d: in %d steps it did something else than its peers, from call %q on (%s)",
			key.rank, n, key.call, diverge.Names[key.difference]))
	}
	return s
}

// problems say what cannot be compared of a rank, and why.
func problems(rank int64, counts *ledger.Rank) (all []string) {
	say := func(n uint64, format string) {
		if n > 0 {
			all = append(all, fmt.Sprintf("rank %d: "+format, rank, n))
		}
	}
	say(counts.Calls[pairing.Unmatched], "%d calls end at another time than those of its group: its seq is shifted, or the group is wrong")
	say(counts.Calls[pairing.Diverged], "%d calls are of steps in which the ranks of the group have different numbers of calls")
	say(counts.Calls[pairing.Unpaired], "%d calls are of steps without a seq that other ranks share")
	say(counts.Calls[pairing.Alone], "%d calls have a group of which no other rank is known")
	say(counts.Missing[pairing.Absent], "%d steps did not come in time, or lack the calls that the other ranks have")
	say(counts.Missing[pairing.IncompleteStep], "%d steps lack records")
	say(counts.Dropped[pairing.Late], "%d steps came after wait_for_ranks")
	return all
}

// A server answers GET /status.
type server struct {
	http    *http.Server
	serving sync.WaitGroup
}

// statusHandler answers GET /status.
func statusHandler(of func() status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(of()) // the client has gone
	})
	return mux
}

// serve listens, and answers until shutdown; nil: there is no server.
func (c *Config) serve(ctx context.Context, host component.Host, set component.TelemetrySettings, handler http.Handler) (*server, error) {
	if !c.HTTP.HasValue() {
		return nil, nil
	}
	config := c.HTTP.Get()
	s := &server{}
	var err error
	if s.http, err = config.ToServer(ctx, host.GetExtensions(), set, webguard.Handler(handler, webguard.Endpoint(config.NetAddr.Endpoint))); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	listener, err := config.ToListener(ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		set.Logger.Warn("http::endpoint: cannot listen, so the connector answers no requests", zap.Error(err))
		componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("http::endpoint: %w", err)
	}
	s.serving.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			componentstatus.ReportStatus(host, componentstatus.NewRecoverableErrorEvent(err))
		}
	})
	return s, nil
}

// shutdown waits for answers that are under way, until ctx ends.
func (s *server) shutdown(ctx context.Context) error {
	if s == nil {
		return nil
	}
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.serving.Wait()
	return err
}
