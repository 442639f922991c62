package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
)

// FuzzControl asks the control endpoint anything: it answers with a status that fits, and JSON where it says so.
func FuzzControl(f *testing.F) {
	for _, seed := range []struct{ method, path, query, accept, body string }{
		{"GET", "/", "", "", ""}, {"GET", "/status", "", "text/html", ""}, {"GET", "/status", "format=json", "", ""},
		{"POST", "/trace", "steps=2&rank=1&wait=1ms", "", ""}, {"POST", "/trace", "seq=7&seq=8", "", "{}"},
		{"POST", "/trace", "steps=-1&wait=999h", "", ""}, {"DELETE", "/status/../trace", "%zz", "*/*", "x"},
	} {
		f.Add(seed.method, seed.path, seed.query, seed.accept, seed.body)
	}
	now := time.Unix(1_800_000_000, 0)
	c := New(zap.NewNop(), func(_ context.Context, a sample.Ask) (sample.Got, error) {
		if a.Steps < 1 || a.Steps > sample.MaxSteps {
			return sample.Got{}, errors.New("asked for too much")
		}
		return sample.Got{Taken: []sample.Taken{{Seq: 7, Rank: 1}}}, nil
	}, oneConnected{}, nil, func(time.Time) Status { return statusStory(now) }, http.NotFoundHandler())
	f.Fuzz(func(t *testing.T, method, path, query, accept, body string) {
		target := &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+target.RequestURI(), strings.NewReader(body))
		if err != nil {
			return // no client can send it
		}
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		c.mux.ServeHTTP(w, r)
		require.Contains(t, []int{200, 301, 307, 400, 404, 405}, w.Code)
		switch kind := w.Header().Get("Content-Type"); {
		case strings.HasPrefix(kind, "application/json"):
			require.True(t, json.Valid(w.Body.Bytes()))
		case strings.HasPrefix(kind, "text/html"):
			require.NotContains(t, w.Body.String(), "<script>")
			require.NotContains(t, w.Body.String(), "<b>mystery")
		}
	})
}
