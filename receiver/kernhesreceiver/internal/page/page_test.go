package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/history"
)

var begin = time.Unix(1_800_000_000, 0)

// hostile is a text of an engine that would run or break out if anything could.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'&` + "\u202e\x00"

// story is a history of a run with ranks that step, the last of which other work disturbs.
func story(run string, ranks int) *history.History {
	h := history.New()
	set := history.Set{Program: "decode", Batch: "64", KV: "4096"}
	for tick := range 30 {
		now := begin.Add(time.Duration(tick) * history.Tick)
		var readings []history.Reading
		for n := range int64(ranks) {
			k := history.Key{Run: run, Rank: n}
			t := uint64(tick)
			c := history.Counters{Compute: t * 2e9, Comm: t * 2.5e9, Idle: t * 0.4e9, Unknown: t * 0.1e9, Steps: t * 50}
			if int(n) == ranks-1 {
				c.Foreign = t * 0.5e9
			}
			readings = append(readings, history.Reading{
				Key: k, PID: "7", Host: run, GPU: "NVIDIA H200", Model: run, Engine: "vllm", Mode: "software", Tracing: true,
				LastStep: uint64(now.UnixNano()), Counters: c, Sets: map[history.Set]history.Sums{set: {Steps: t * 50, Wall: t * 5e9, Compute: t * 2e9}},
			})
			start := uint64(now.UnixNano())
			h.Take(now, &history.Step{
				Key: k, Set: set, Seq: uint64(128 * tick), Text: run, Start: start, End: start + 10e6, Compute: 4e6, Comm: 5e6, Idle: 1e6, Kernels: 2,
			}, func() []history.Kernel {
				return []history.Kernel{
					{Call: "decode." + run, Start: start, Dur: 4e6, Stream: 7}, {Name: "ncclDevKernel", Comm: true, Start: start + 5e6, Dur: 5e6, Stream: 13},
				}
			})
		}
		h.Observe(now, readings)
	}
	return h
}

var now = begin.Add(29 * history.Tick)

func get(t *testing.T, h *history.History, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(h, func() time.Time { return now }).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

// elements are the names of a page's elements, and the names of their attributes.
func elements(t *testing.T, page string) (names, attributes map[string]int) {
	t.Helper()
	names, attributes = map[string]int{}, map[string]int{}
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return names, attributes
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			names[token.Data]++
			for _, a := range token.Attr {
				attributes[a.Key]++
			}
		}
	}
}

func TestTheFirstLineSaysWhatIsWrong(t *testing.T) {
	page := get(t, story("r", 4), "/").Body.String()
	wrong := strings.Index(page, "<strong>KernSlowRank</strong> Rank 3 of run r is slow (foreign): other work computes on its GPU 10% of the time.")
	require.Positive(t, wrong)
	assert.Less(t, wrong, strings.Index(page, "<h2>"), "it stands above the runs")
	assert.NotContains(t, page, "Nothing is wrong.")

	h := history.New()
	assert.Contains(t, get(t, h, "/").Body.String(), "No engine yet.")
	h.Observe(begin, []history.Reading{{Key: history.Key{Run: "r"}, Tracing: true}})
	assert.Contains(t, get(t, h, "/").Body.String(), "Nothing is wrong.")
}

func TestEachRankHasAStripAndALinkToItsSteps(t *testing.T) {
	for _, ranks := range []int{2, 8, 64} {
		page := get(t, story("r", ranks), "/").Body.String()
		names, _ := elements(t, page)
		assert.Equal(t, ranks, names["svg"])
		assert.Equal(t, 4*ranks, names["path"], "four kinds of time a rank")
		for n := range ranks {
			assert.Contains(t, page, fmt.Sprintf(`href="rank?rank=%d&amp;run=r"`, n))
		}
		// 40, 50, 8 and 2 percent of each bin, from the top.
		assert.Contains(t, page, `aria-label="last minute: compute 40%, communication 50%, idle 8%, unknown 2%"`)
		assert.Less(t, len(page), 10_000+12_000*ranks, "bytes")
	}
}

func TestAStripIsDrawnFromTheBottom(t *testing.T) {
	got := strip([]history.Share{{}, {Compute: 0.25, Comm: 0.5, Idle: 0.25}}, 1)
	assert.Equal(t, `<path class="compute" d="M1 75h1v25h-1z"/><path class="comm" d="M1 25h1v50h-1z"/><path class="idle" d="M1 0h1v25h-1z"/>`, string(got))
	// Two bins in one, of which one has no data.
	got = strip([]history.Share{{}, {Compute: 1}}, 2)
	assert.Equal(t, `<path class="compute" d="M0 0h2v100h-2z"/>`, string(got))
}

func TestFromARankToItsStepsToATimeline(t *testing.T) {
	h := story("r", 2)
	page := get(t, h, "/rank?run=r&rank=1").Body.String()
	assert.Contains(t, page, `href="step?run=r&amp;seq=3712"`) // 29 * 128
	assert.Contains(t, page, "10.0 ms")

	page = get(t, h, "/step?run=r&seq=3712").Body.String()
	assert.Contains(t, page, "<h3>Rank 0 ")
	assert.Contains(t, page, "<h3>Rank 1 ")
	assert.Contains(t, page, `href="step.pftrace?run=r&amp;seq=3712"`)
	// 4 of 10 ms from the start, on the first row; 5 ms from the middle on the second.
	assert.Contains(t, page, `<rect class="compute" x="0.00" y="2" width="400.00" height="14"><title>decode.r: 4.00 ms, 1 kernels</title>`)
	assert.Contains(t, page, `<rect class="comm" x="500.00" y="20" width="500.00" height="14"><title>ncclDevKernel: 5.00 ms, 1 kernels</title>`)

	w := get(t, h, "/step.pftrace?run=r&seq=3712")
	assert.Equal(t, `attachment; filename="step-3712.pftrace"`, w.Header().Get("Content-Disposition"))
	assert.Contains(t, w.Body.String(), "ncclDevKernel")

	assert.Equal(t, http.StatusNotFound, get(t, h, "/step?run=r&seq=1").Code)
	assert.Equal(t, http.StatusNotFound, get(t, h, "/rank?run=r&rank=9").Code)
	assert.Equal(t, http.StatusBadRequest, get(t, h, "/rank?run=r&rank=x").Code)
	assert.Equal(t, http.StatusBadRequest, get(t, h, "/step?run=r").Code)
}

// Texts come from engines. No page of them may have an element or attribute that a page of a good engine lacks.
func TestTextsOfEnginesAreData(t *testing.T) {
	good, bad := story("r", 2), story(hostile, 2)
	query := "run=" + strings.NewReplacer(`"`, "%22", "<", "%3C", ">", "%3E", "'", "%27", "&", "%26", " ", "%20", "\u202e", "%E2%80%AE", "\x00", "%00", "=", "%3D").Replace(hostile)
	for path, other := range map[string]string{
		"/": "/", "/rank?run=r&rank=1": "/rank?rank=1&" + query, "/step?run=r&seq=3712": "/step?seq=3712&" + query,
	} {
		want, attributes := elements(t, get(t, good, path).Body.String())
		w := get(t, bad, other)
		require.Equal(t, http.StatusOK, w.Code, other)
		got, others := elements(t, w.Body.String())
		assert.Equal(t, want, got, path)
		assert.Equal(t, attributes, others, path)
		assert.False(t, strings.Contains(w.Body.String(), "\u202e"), path)
		assert.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	}
}

func TestThePageIsAlsoJSON(t *testing.T) {
	var v history.View
	require.NoError(t, json.Unmarshal(get(t, story("r", 4), "/live").Body.Bytes(), &v))
	require.Len(t, v.Runs, 1)
	assert.Len(t, v.Runs[0].Ranks, 4)
	assert.InDelta(t, 0.4, v.Runs[0].Ranks[0].Last.Compute, 1e-9)
	assert.Equal(t, "KernSlowRank", v.Verdicts[0].Alert)
}

func BenchmarkLivePageOf64Ranks(b *testing.B) {
	h := story("r", 64)
	handler := Handler(h, func() time.Time { return now })
	for b.Loop() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil))
	}
}

func TestALabelSaysHowMuchWasTraced(t *testing.T) {
	assert.Equal(t, "last minute: compute 40%, communication 50%, idle 10%, unknown 0%", label(history.Share{Compute: 0.4, Comm: 0.5, Idle: 0.1, Traced: 1}))
	assert.Equal(t, "last minute: compute 40%, communication 50%, idle 10%, unknown 0% of the 3.4% of the time that were traced",
		label(history.Share{Compute: 0.4, Comm: 0.5, Idle: 0.1, Traced: 0.034}))
}
