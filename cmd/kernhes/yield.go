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

const yieldText = `Makes engines release CUPTI, so that a profiler (torch.profiler, nsys) can use it. They take it back after a time.
Meanwhile nothing is traced: device time is unknown, and steps at the edges are incomplete. A slowdown of 4 to 12% remains,
because CUPTI stays loaded. Exit status 1: an engine had not released CUPTI (or taken it back) after five seconds.`

// yield has engines let go of CUPTI, or take it back.
func yield(args []string, out io.Writer) error {
	f := flags("yield", "[FLAGS]", yieldText)
	endpoint := endpointFlag(f, "http://127.0.0.1:8988", "control_endpoint of the receiver kernhes", "url")
	seconds := f.Int("seconds", 60, "seconds after which engines take it back, 1 to 86400")
	rank := f.String("rank", "", "only this rank")
	run := f.String("run", "", "only this run; a name means all its starts, NAME# the first one")
	back := f.Bool("back", false, "take it back now")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected %q: %w", f.Arg(0), errUsage)
	}
	method, query := http.MethodPost, url.Values{"seconds": {strconv.Itoa(*seconds)}}
	if *back {
		method, query = http.MethodDelete, url.Values{}
	}
	for name, value := range map[string]string{"rank": *rank, "run": *run} {
		if value != "" {
			query.Set(name, value)
		}
	}
	body, err := ask(method, *endpoint+"/yield", "?"+query.Encode(), 30*time.Second)
	if err != nil {
		return err
	}
	return tellYield(body, *back, out)
}

// tellYield prints a line an engine.
func tellYield(body []byte, back bool, out io.Writer) error {
	var said struct {
		Engines []struct {
			Run, PID, Mode string
			Rank           int64
			Reason         string `json:"mode_reason"`
			Subscribed     bool
		}
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return err
	}
	slow := 0
	for _, e := range said.Engines {
		has := map[bool]string{true: "has CUPTI", false: "does not have CUPTI"}[e.Subscribed]
		if e.Subscribed != back {
			slow++
		}
		who := fmt.Sprintf("rank %d of run %s (process %s)", e.Rank, e.Run, e.PID)
		if e.Run == "" {
			who = fmt.Sprintf("process %s, whose run and rank are not known yet", e.PID)
		}
		if _, err := fmt.Fprintf(out, "%s: %s; traces in mode %s %s\n", who, has, e.Mode, e.Reason); err != nil {
			return err
		}
	}
	if slow > 0 {
		return fmt.Errorf("%d of %d engines have not done it after five seconds; see mode_reason in GET /status", slow, len(said.Engines))
	}
	return nil
}
