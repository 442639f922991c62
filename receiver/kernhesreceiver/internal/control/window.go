package control

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/orders"
)

// How long a window is that is asked for without a length, and the longest.
const (
	windowTime    = 5 * time.Second
	maxWindowTime = 600 * time.Second
)

// windowForTrace is how long a window is that opens for POST /trace: steps that are in one are traced whole.
const windowForTrace = 2 * time.Second

// An Opener opens a window on all ranks of a run, or of each run if that is empty; orders.Desk.Open is it.
type Opener func(now time.Time, run string, length time.Duration, why string) ([]orders.Window, error)

// A windowAnswer is the window of a run.
type windowAnswer struct {
	Run     string  `json:"run"`
	ID      uint64  `json:"id"`
	Start   string  `json:"start"` // RFC 3339, with ns
	Seconds float64 `json:"seconds"`
	Engines int     `json:"engines"` // that took the order
	Why     string  `json:"why"`
	Before  bool    `json:"ordered_before,omitempty"` // it was ordered before, for as long at least
}

// serveWindow answers POST /window.
func serveWindow(open Opener) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		run, length, err := parseWindow(r.URL.Query())
		if err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		opened, err := open(time.Now(), run, length, "POST /window asks for it")
		switch {
		case errors.Is(err, orders.ErrNone):
			refuse(w, http.StatusNotFound, err)
			return
		case err != nil:
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		answers := make([]windowAnswer, 0, len(opened))
		for _, one := range opened {
			answers = append(answers, windowAnswer{
				Run: clean(one.Run), ID: one.ID, Start: one.Start.UTC().Format(time.RFC3339Nano), Seconds: one.End.Sub(one.Start).Seconds(),
				Engines: one.Engines, Why: one.Why, Before: one.Before,
			})
		}
		slices.SortFunc(answers, func(a, b windowAnswer) int { return cmp.Compare(a.Run, b.Run) })
		answer(w, http.StatusOK, struct {
			Windows []windowAnswer `json:"windows"`
		}{answers})
	}
}

// parseWindow reads the parameters of /window. Its errors name the parameter.
func parseWindow(q url.Values) (run string, length time.Duration, err error) {
	length = windowTime
	for _, name := range slices.Sorted(maps.Keys(q)) {
		values := q[name]
		if len(values) != 1 {
			return "", 0, fmt.Errorf("%q: given %d times", name, len(values))
		}
		switch value := values[0]; name {
		case "seconds":
			n, err := strconv.ParseFloat(value, 64)
			if most := maxWindowTime.Seconds(); err != nil || !(n >= 0.1 && n <= most) {
				return "", 0, fmt.Errorf("seconds: %q: want 0.1 to %.0f", value, most)
			}
			length = time.Duration(n * float64(time.Second))
		case "run":
			run = value
		default:
			return "", 0, fmt.Errorf("%q: want seconds or run", name)
		}
	}
	return run, length, nil
}
