package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
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

// Engines are the live processes that a request can be for.
type engines interface {
	Standings() []fleet.Standing                    // of all
	Standing(session uint64) (fleet.Standing, bool) // of one; false: it has ended
	Command(session uint64, frame []byte) bool      // sends a frame within some seconds; false: its connection ends, or there is none
}

// yield asks engines to let go of CUPTI, or to take it back, and waits for a while until they have.
func yield(ctx context.Context, all engines, ask yieldAsk) ([]yieldAnswer, error) {
	frame := wire.AppendControl(nil, wire.CommandYield, uint64(ask.time))
	if ask.time == 0 {
		frame = wire.AppendControl(nil, wire.CommandResume, 0)
	}
	told := tell(all, frame, ask.fits)
	ctx, cancel := context.WithTimeout(ctx, yieldWait)
	defer cancel()
	look := time.NewTicker(yieldLook)
	defer look.Stop()
	for {
		answers, done := []yieldAnswer{}, true
		for _, id := range told {
			if s, ok := all.Standing(id); ok {
				answers = append(answers, answerOf(&s))
				done = done && s.Subscribed == (ask.time == 0)
			}
		}
		if len(answers) == 0 {
			return nil, errNoneAsked
		}
		slices.SortFunc(answers, func(a, b yieldAnswer) int {
			return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Session, b.Session))
		})
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

// tell sends a frame to all engines that fit at once: one that does not read keeps no other waiting. It returns those that took it.
func tell(all engines, frame []byte, fits func(*fleet.Standing) bool) (told []uint64) {
	var mu sync.Mutex
	var telling sync.WaitGroup
	for _, s := range all.Standings() {
		if !fits(&s) {
			continue
		}
		telling.Go(func() {
			if all.Command(s.Session, frame) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, s.Session)
			}
		})
	}
	telling.Wait()
	return told
}

func answerOf(s *fleet.Standing) yieldAnswer {
	return yieldAnswer{
		Session: engine.SessionName(s.Session), Run: clean(s.Run), Rank: s.Rank, PID: clean(s.PID),
		Mode: clean(s.Mode), ModeReason: clean(s.ModeReason), Subscribed: s.Subscribed,
	}
}

func (ask *yieldAsk) fits(s *fleet.Standing) bool {
	return s.Connected && s.OfRun(ask.run) && (ask.rank == nil || s.Run != "" && *ask.rank == s.Rank)
}

// serveYield answers POST /yield, and with back set DELETE /yield.
func serveYield(back bool, all engines) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ask, err := parseYield(r.URL.Query(), back)
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		answers, err := yield(r.Context(), all, ask)
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
