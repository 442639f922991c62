package control

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/orders"
)

func TestPostWindow(t *testing.T) {
	var run string
	var length time.Duration
	start := time.Date(2026, 12, 1, 10, 0, 0, 500e6, time.UTC)
	handler := serveWindow(func(_ time.Time, r string, l time.Duration, why string) ([]orders.Window, error) {
		run, length = r, l
		if r == "none" {
			return nil, orders.ErrNone
		}
		return []orders.Window{
			{Run: "b", ID: 8, Engines: 2, Start: start, End: start.Add(l), Why: why}, {Run: "a", ID: 7, Start: start, End: start.Add(9 * time.Second), Why: "by the clock", Before: true},
		}, nil
	})
	ask := func(query string) (int, string) {
		w := httptest.NewRecorder()
		handler(w, httptest.NewRequest(http.MethodPost, "/window"+query, nil))
		body, _ := io.ReadAll(w.Body)
		return w.Code, string(body)
	}
	code, body := ask("?seconds=2.5&run=r")
	assert.Equal(t, http.StatusOK, code)
	assert.JSONEq(t, `{"windows": [
		{"run": "a", "id": 7, "start": "2026-12-01T10:00:00.5Z", "seconds": 9, "engines": 0, "why": "by the clock", "ordered_before": true},
		{"run": "b", "id": 8, "start": "2026-12-01T10:00:00.5Z", "seconds": 2.5, "engines": 2, "why": "POST /window asks for it"}]}`, body)
	assert.Equal(t, "r", run)
	assert.Equal(t, 2500*time.Millisecond, length)
	_, _ = ask("")
	assert.Equal(t, 5*time.Second, length)
	for query, want := range map[string]int{
		"?run=none": 404, "?seconds=0": 400, "?seconds=601": 400, "?seconds=x": 400, "?seconds=NaN": 400, "?run=a&run=b": 400, "?rank=1": 400,
	} {
		code, _ := ask(query)
		assert.Equal(t, want, code, query)
	}
}
