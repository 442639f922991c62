package control

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"
)

//go:embed status.html
var statusHTML string

var statusPage = template.Must(template.New("status").Funcs(template.FuncMap{
	"age": func(seconds *float64) string {
		if seconds == nil {
			return "never"
		}
		return short(*seconds)
	},
	"short":   short,
	"percent": func(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) },
	"share": func(r rankStatus, part float64) string { // of traced time
		return fmt.Sprintf("%.1f", 100*part/max(r.Traced, 1e-9))
	},
	"traced": func(r rankStatus) string {
		return fmt.Sprintf("%.1f", 100*r.Traced/max(r.Compute+r.Comm+r.Idle+r.Unknown, 1e-9))
	},
	"sum": func(counts map[string]uint64) (n uint64) {
		for _, c := range counts {
			n += c
		}
		return n
	},
}).Parse(statusHTML))

// short is a duration as people say it.
func short(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}

// serveStatus answers GET /status: a page to a browser or with ?format=html, else JSON.
func serveStatus(get func(now time.Time) Status) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		format := r.URL.Query().Get("format")
		if format == "" && strings.Contains(r.Header.Get("Accept"), "text/html") {
			format = "html"
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Vary", "Accept")
		if format != "html" {
			answer(w, http.StatusOK, get(time.Now()))
			return
		}
		var page bytes.Buffer
		if err := statusPage.Execute(&page, get(time.Now())); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// Nothing on the page is fetched or run.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(page.Bytes())
	}
}
