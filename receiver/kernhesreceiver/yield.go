package kernhesreceiver

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"

	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/kernhes/kernhes/internal/runname"
	"github.com/kernhes/kernhes/internal/wire"
)

// How long an engine lets go of CUPTI if the request does not say, and at most; and how long a request waits for it:
// the engine flushes first, and takes up to a second to be done with what it has.
const (
	yieldTime    = time.Minute
	maxYieldTime = 24 * time.Hour
	yieldWait    = 5 * time.Second
	yieldLook    = 20 * time.Millisecond
)

// A yieldAsk is what POST and DELETE /yield ask.
type yieldAsk struct {
	time time.Duration // 0: to take CUPTI back
	rank *int64        // nil: all; an engine that is not settled has none
	run  string        // "": all; a name is all its starts
}

// A yieldAnswer is an engine that was asked.
type yieldAnswer struct {
	Session    string `json:"session"`
	Run        string `json:"run"`
	Rank       int64  `json:"rank"`
	PID        string `json:"pid"`
	Mode       string `json:"mode"`
	ModeReason string `json:"mode_reason,omitempty"`
	Subscribed bool   `json:"subscribed"` // to CUPTI, in the end
}

var errNoneAsked = errors.New("no connected engine is so")

// yield asks engines to let go of CUPTI, or to take it back, and waits for a while until they have.
func (r *kernhesReceiver) yield(ctx context.Context, ask yieldAsk) ([]yieldAnswer, error) {
	asked := map[string]bool{}
	for _, s := range r.status(time.Now()).Sessions {
		if ask.fits(&s) {
			asked[s.Session] = r.command(s.Session, ask)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, yieldWait)
	defer cancel()
	look := time.NewTicker(yieldLook)
	defer look.Stop()
	for {
		answers, done := []yieldAnswer{}, true
		for _, s := range r.status(time.Now()).Sessions {
			if !asked[s.Session] {
				continue
			}
			answers = append(answers, yieldAnswer{s.Session, s.Run, s.firstRank(), s.PID, s.Mode, s.ModeReason, s.Subscribed})
			done = done && s.Subscribed == (ask.time == 0)
		}
		if len(answers) == 0 {
			return nil, errNoneAsked
		}
		if done {
			return answers, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return answers, nil
		}
	}
}

func (ask *yieldAsk) fits(s *sessionStatus) bool {
	return s.Connected && s.ofRun(ask.run) && (ask.rank == nil || s.Run != "" && *ask.rank == s.firstRank())
}

// ofRun reports whether a process is of a run that a person asks for. One that is not settled has only the name that it claims.
func (s *sessionStatus) ofRun(asked string) bool {
	return runname.Is(cmp.Or(s.Run, s.claims), asked)
}

// writeTimeout is how long a person waits for an engine that does not take a command.
const writeTimeout = 10 * time.Second

// command sends a session's engine what is asked; false if its connection ends.
func (r *kernhesReceiver) command(session string, ask yieldAsk) bool {
	frame := wire.AppendControl(nil, wire.CommandYield, uint64(ask.time))
	if ask.time == 0 {
		frame = wire.AppendControl(nil, wire.CommandResume, 0)
	}
	for _, s := range r.table.all() {
		if engine.SessionName(s.id) != session {
			continue
		}
		s.mu.Lock()
		conn := s.conn
		s.mu.Unlock()
		if conn == nil || conn.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return false
		}
		if _, err := conn.Write(frame); err != nil { // whole, whoever else writes
			_ = conn.Close() // else what is written next would go on in the middle of a frame
			return false
		}
		return true
	}
	return false
}

// serveYield answers POST /yield, and with back set DELETE /yield.
func serveYield(back bool, yield func(context.Context, yieldAsk) ([]yieldAnswer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ask, err := parseYield(r.URL.Query(), back)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		answers, err := yield(r.Context(), ask)
		if err != nil {
			refuse(w, http.StatusNotFound, err)
			return
		}
		answer(w, http.StatusOK, struct {
			Seconds float64       `json:"seconds"`
			Engines []yieldAnswer `json:"engines"`
		}{ask.time.Seconds(), answers})
	}
}

// parseYield reads the parameters of /yield. Its errors name the parameter.
func parseYield(q url.Values, back bool) (ask yieldAsk, err error) {
	if !back {
		ask.time = yieldTime
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		values := q[name]
		if len(values) != 1 {
			return ask, fmt.Errorf("%q: given %d times", name, len(values))
		}
		value := values[0]
		switch {
		case name == "seconds" && !back:
			n, err := strconv.ParseUint(value, 10, 32)
			if most := uint64(maxYieldTime / time.Second); err != nil || n < 1 || n > most {
				return ask, fmt.Errorf("seconds: %q: want 1 to %d", value, most)
			}
			ask.time = time.Duration(n) * time.Second
		case name == "rank":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return ask, fmt.Errorf("rank: %q: want a number", value)
			}
			ask.rank = &n
		case name == "run":
			ask.run = value
		default:
			return ask, fmt.Errorf("%q: want seconds (of POST), rank or run", name)
		}
	}
	return ask, nil
}
