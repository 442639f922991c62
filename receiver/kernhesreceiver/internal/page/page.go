// Package page draws the history of runs as web pages: ranks side by side, the steps of a rank, the timeline of a step.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"time"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/history"
)

//go:embed live.html
var liveHTML string

//go:embed rank.html
var rankHTML string

//go:embed step.html
var stepHTML string

//go:embed head.html
var headHTML string

// script asks for the page again every five seconds and puts what is new in place, so that focus and position stay. A browser
// without scripts loads the page again every 15 seconds.
//
//go:embed refresh.js
var script string

// policy lets the browser run our script alone, and fetch nothing from elsewhere.
var policy = func() string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}()

var pages = template.Must(template.New("").Funcs(functions).Parse(headHTML + liveHTML + rankHTML + stepHTML))

// A page is what a template shows.
type shown struct {
	Title   string
	Script  template.JS
	Refresh bool
	Data    any
}

// Handler serves the pages of h. A Perfetto trace of a step is at /step.pftrace.
func Handler(h *history.History, now func() time.Time) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		v := h.At(now())
		show(w, "live", shown{Title: title(v), Refresh: true, Data: newLive(v)})
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(h.At(now())) // the client has gone
	})
	mux.HandleFunc("GET /rank", func(w http.ResponseWriter, r *http.Request) {
		k, ok := keyOf(r)
		if !ok {
			http.Error(w, "want ?run=NAME&rank=NUMBER", http.StatusBadRequest)
			return
		}
		steps := h.Steps(k)
		if steps == nil {
			http.Error(w, "no such rank: want ?run=NAME&rank=NUMBER of a run that is on the live page", http.StatusNotFound)
			return
		}
		show(w, "rank", shown{Title: fmt.Sprintf("Rank %d of %s", k.Rank, k.Run), Refresh: true, Data: newRank(k, steps, h.Kept(k))})
	})
	mux.HandleFunc("GET /step", func(w http.ResponseWriter, r *http.Request) {
		steps, ok := stepOf(h, w, r)
		if ok {
			show(w, "step", shown{Title: fmt.Sprintf("Step %d of %s", steps[0].Seq, steps[0].Run), Data: newTimeline(steps)})
		}
	})
	mux.HandleFunc("GET /step.pftrace", func(w http.ResponseWriter, r *http.Request) {
		steps, ok := stepOf(h, w, r)
		if !ok {
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="step-%d.pftrace"`, steps[0].Seq))
		_ = trace(w, steps) // the client has gone
	})
	return mux
}

// title tells in the browser's tab whether something is wrong.
func title(v history.View) string {
	if n := len(v.Verdicts); n > 0 {
		return fmt.Sprintf("(%d) kernhes", n)
	}
	return "kernhes"
}

func keyOf(r *http.Request) (history.Key, bool) {
	n, err := strconv.ParseInt(r.URL.Query().Get("rank"), 10, 64)
	return history.Key{Run: r.URL.Query().Get("run"), Rank: n}, err == nil
}

// stepOf finds the step that a request asks for, of all ranks that kept it; false: it has been answered.
func stepOf(h *history.History, w http.ResponseWriter, r *http.Request) ([]*history.Step, bool) {
	seq, err := strconv.ParseUint(r.URL.Query().Get("seq"), 10, 64)
	if err != nil {
		http.Error(w, "want ?run=NAME&seq=NUMBER", http.StatusBadRequest)
		return nil, false
	}
	steps := h.Detailed(r.URL.Query().Get("run"), seq)
	if len(steps) == 0 {
		http.Error(w, "the kernels of this step are not kept: the archive has them (kernhes perfetto)", http.StatusNotFound)
		return nil, false
	}
	return steps, true
}

func show(w http.ResponseWriter, name string, p shown) {
	p.Script = template.JS(script)
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, p); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // the client has gone
}

var functions = template.FuncMap{
	"percent": func(part float64) string { return fmt.Sprintf("%.1f%%", 100*part) },
	"part": func(part float64) string { // of time; nothing, if it is nothing
		if part == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f%%", 100*part)
	},
	"ratio": func(r float64) string {
		if r == 0 {
			return "–"
		}
		return fmt.Sprintf("%.2f", r)
	},
	"duration": duration,
	"nanos":    func(ns uint64) string { return duration(float64(ns) / 1e9) },
	"age": func(seconds *float64) string {
		if seconds == nil {
			return "never"
		}
		return duration(*seconds)
	},
	"times": func(now, past float64) string {
		if now == 0 || past == 0 {
			return "–"
		}
		return fmt.Sprintf("×%.2f", now/past)
	},
	"ms":    func(seconds float64) float64 { return 1e3 * seconds },
	"clean": clean,
}

// duration is seconds as people say them, with three digits.
func duration(s float64) string {
	switch {
	case s == 0:
		return "–"
	case s < 1e-3:
		return digits(s*1e6) + " µs"
	case s < 1:
		return digits(s*1e3) + " ms"
	case s < 120:
		return digits(s) + " s"
	case s < 7200:
		return digits(s/60) + " min"
	}
	return digits(s/3600) + " h"
}

func digits(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// maxText bounds a text of an engine on the page, in runes.
const maxText = 120

// clean bounds a text of an engine, and takes out what would reorder or hide its neighbours. The template escapes it.
func clean(s string) string { return wire.Brief(s, maxText) }
