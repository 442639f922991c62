package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const windowText = `Traces all ranks of a run for a while. The engines must run with KERNHES_SOFTWARE=windows (kernhes run --windows).
The window begins at the first step half a second from now. If a window is open, it goes on, and becomes longer if need be.`

// window opens a window.
func window(args []string, out io.Writer) error {
	f := flags("window", "[FLAGS]", windowText)
	endpoint := endpointFlag(f, "http://127.0.0.1:8988", "control_endpoint of the receiver kernhes", "url")
	seconds := f.Float64("seconds", 5, "length of the window in seconds, 0.1 to 600")
	run := f.String("run", "", "only this run; a name means all its starts, NAME# the first one")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected %q: %w", f.Arg(0), errUsage)
	}
	query := url.Values{"seconds": {strconv.FormatFloat(*seconds, 'f', -1, 64)}}
	if *run != "" {
		query.Set("run", *run)
	}
	body, err := ask(http.MethodPost, *endpoint+"/window", "?"+query.Encode(), 30*time.Second)
	if err != nil {
		return err
	}
	var said struct {
		Windows []struct {
			Run     string
			ID      uint64
			Start   time.Time
			Seconds float64
			Engines int
			Why     string
			Before  bool `json:"ordered_before"`
		}
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return err
	}
	for _, w := range said.Windows {
		verb := "opens"
		if w.Before {
			verb = "was ordered before"
		}
		if _, err := fmt.Fprintf(out, "run %s: a window of %g s %s at %s on %d engines (%s)\n",
			w.Run, w.Seconds, verb, w.Start.Format("15:04:05.000"), w.Engines, w.Why); err != nil {
			return err
		}
	}
	return nil
}
