package control

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/model"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/coverage"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
)

// statusStory is two ranks of a run, of which the second has an engine that lies, and a third session that says it is the first.
func statusStory(now time.Time) Status {
	at := uint64(now.UnixNano())
	names := []coverage.Named{{Name: "<b>mystery</b>", Time: coverage.Time{NS: 2e9, Kernels: 4}}}
	good := engine.Report{
		Info: map[string]string{"run": "r", "pid": "7", "mode": "hes", "gpu.0.name": "B200", "engine": "kern", "cupti_version": "130400"},
		Rank: 0, NowNS: at - 1e9, FirstNS: at - 10e9, LastNS: at - 3e9, WatermarkNS: at - 2e9, LastStepNS: at - 4e9,
		ComputeNS: 4e9, CommNS: 1e9, IdleNS: 3e9, Kernels: 100, Became: model.Outcomes{InSteps: 90, Settled: model.Settled{Outside: 4, Late: 3, Invalid: 2}}, Pending: 1,
		Coverage: coverage.Report{Totals: coverage.Totals{
			By:     [3]coverage.Time{{NS: 2e9, Kernels: 4}, {NS: 1e9, Kernels: 50}, {NS: 1e9, Kernels: 36}},
			InStep: coverage.Time{NS: 3e9}, Labelled: coverage.Time{NS: 15e8},
		}, Defaulted: names},
		Complete: fleet.StepsForSilence, Readable: true, Dropped: map[string]uint64{"hes_buffer": 0},
	}
	bad := good
	bad.Info = map[string]string{"run": "r", "pid": "8", "mode": "off", "mode_reason": "<script>\x00\xff\u202eevil", "engine": strings.Repeat("long", 500)}
	bad.Coverage = coverage.Report{}
	bad.Rank, bad.Kernels, bad.IdleNS, bad.Readable = 1, 103, 3e9-5, false
	bad.Dropped = map[string]uint64{"hes_buffer": 12}
	bad.Silent, bad.Down, bad.StepRanges = 2*time.Second, fleet.Silent, 5
	good.Ranges = &engine.RangesReport{
		Counts: ranges.Counts{Steps: 3, Leaked: 2, Underflow: 1}, Open: 71,
		Leaks:     []ranges.Leak{{Thread: 574, Domain: "<i>NCCL", Text: "init", Open: 70, Leaking: true}, {Thread: 9, Text: "main", Open: 1}},
		Unmatched: []ranges.Unmatched{{Text: "warm-up #", Example: "warm-up 1", Ranges: 2, Kernels: 5, NS: 3e9}},
	}
	good.StepRanges = 3
	good.Counts = books.Counts{books.KernelsReceived: 100, books.KernelsInSteps: 99, books.KernelsPending: 1, books.DeviceWall: 8e9, books.DeviceIdle: 8e9}
	bad.Counts = books.Counts{books.KernelsReceived: 103, books.KernelsInSteps: 100, books.DeviceWall: 8e9 - 5, books.DeviceIdle: 8e9}
	since := now.Add(-time.Minute)
	return NewStatus(now, Receiver{
		Since: now.Add(-time.Hour), Version: "v1", Rules: "2", Bye: 2, Delivery: &deliveryStatus{Error: "disk full", Since: &since, Refused: 7},
	}, []fleet.Session{
		{ID: 2, Waits: 3 * time.Second, Reports: []engine.Report{bad}},
		{ID: 1, Connected: true, OpenFrames: 9, HeldBy: "an open step", Reports: []engine.Report{good}},
		{ID: 3, Connected: true, Reports: []engine.Report{good}},
	})
}

func TestStatus(t *testing.T) {
	s := statusStory(time.Unix(1_800_000_000, 0))
	require.Len(t, s.Sessions, 3)
	assert.Equal(t, []string{engine.SessionName(1), engine.SessionName(3), engine.SessionName(2)},
		[]string{s.Sessions[0].Session, s.Sessions[1].Session, s.Sessions[2].Session}, "by run and rank")
	first, liar := s.Sessions[0], s.Sessions[2]
	assert.Equal(t, "B200", first.Ranks[0].GPU)
	assert.Equal(t, []float64{0, 2, 3, 1}, []float64{*first.HeardAge, *first.Ranks[0].KernelAge, *first.Ranks[0].StepAge, *first.Ranks[0].WatermarkAge})
	assert.EqualValues(t, 100, first.Ranks[0].Books[books.KernelsReceived])
	assert.Equal(t, map[string]int64{"kernels": 0, "device_ns": 0}, first.Ranks[0].Residue)
	assert.Equal(t, map[string]int64{"kernels": 3, "device_ns": -5}, liar.Ranks[0].Residue)
	assert.InDelta(t, 3.0, liar.Waits, 0)
	assert.Equal(t, []float64{2, 4, 5, 3}, []float64{*liar.HeardAge, *liar.Ranks[0].KernelAge, *liar.Ranks[0].StepAge, *liar.Ranks[0].WatermarkAge}, "ages go on")
	assert.Equal(t, []any{true, "", false, "silent"}, []any{first.Up, first.Down, liar.Up, liar.Down})
	assert.Equal(t, []openStatus{{574, "<i>NCCL", "init", 70, true}, {9, "", "main", 1, false}}, first.OpenRanges)
	assert.Equal(t, map[string]uint64{"leaked": 2, "underflow": 1}, first.RangeFaults)
	assert.Equal(t, []unmatchedStatus{{"warm-up #", "", 2, 5, 3, `{match: '^warm-up \d+$', program: step}`}}, first.Unmatched)
	assert.EqualValues(t, 9, first.OpenFrames)
	assert.Equal(t, "an open step", first.HeldBy)
	require.Len(t, first.Faults, 2)
	assert.Contains(t, first.Faults[0], "with HES it leaks")
	assert.Empty(t, liar.Faults, "it does not say its version")
	assert.Equal(t, "<script>\uFFFD\uFFFD\uFFFDevil", liar.ModeReason)
	assert.Len(t, liar.Engine, maxStatusText+len("…"))
	c := first.Ranks[0].Coverage
	assert.Equal(t, map[string]float64{"default": 2, "rule": 1, "manifest": 1}, c.Classified)
	assert.Equal(t, []float64{0.75, 0.5}, []float64{c.InStep, c.Labelled})
	assert.Equal(t, []nameStatus{{"<b>mystery</b>", 2, 4}}, c.Defaulted)
	assert.Nil(t, liar.Ranks[0].Coverage)
	assert.Equal(t, []string{
		"rank 1 of run r: the books do not add up: device_ns by -5",
		"rank 1 of run r: the books do not add up: kernels by 3",
		"the logs pipeline (the archive) or the dump takes nothing since 07:59:00 UTC, so nothing is acknowledged: disk full",
		"the logs pipeline (the archive) refused 7 records for good: disk full",
		"rank 0 of run r: 2 processes claim to be it, and are kept apart as runs r, r",
		`rank 0 of run r: thread 574 leaks NVTX ranges in domain <i>NCCL: 70 are open, most of them "init": they are pushed and never popped`,
		`rank 0 of run r: thread 574 leaks NVTX ranges in domain <i>NCCL: 70 are open, most of them "init": they are pushed and never popped`,
		"rank 1 of run r: process 8 is not connected",
		"rank 1 of run r: nothing is traced: <script>\uFFFD\uFFFD\uFFFDevil",
		"rank 1 of run r: 12 records lost: hes_buffer",
		"rank 1 of run r: CUPTI does not say how many records it dropped",
		"run r: several ranks, and no communication was ever seen: its kernels may have names that no rule knows",
	}, s.Problems)
}

func TestStatusOfNothing(t *testing.T) {
	s := NewStatus(time.Unix(1, 0), Receiver{Version: "v", Rules: "2"}, []fleet.Session{{ID: 1, Connected: true, Reports: []engine.Report{{
		Info: map[string]string{"mode": "hes"}, Unplaced: true, Readable: true, FirstNS: 5, WatermarkNS: 3}}}})
	assert.Empty(t, s.Problems)
	assert.Nil(t, s.Sessions[0].Ranks[0].KernelAge)
	text, err := json.Marshal(NewStatus(time.Unix(1, 0), Receiver{Version: "v", Rules: "2"}, nil))
	require.NoError(t, err)
	assert.Contains(t, string(text), `"problems":[],"sessions":[]`)
}

func TestServeStatus(t *testing.T) {
	server := httptest.NewServer(serveStatus(func(time.Time) Status { return statusStory(time.Now()) }))
	defer server.Close()
	get := func(query, accept string) (kind, body string) {
		t.Helper()
		request, err := http.NewRequest(http.MethodGet, server.URL+query, nil)
		require.NoError(t, err)
		request.Header.Set("Accept", accept)
		answer, err := server.Client().Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.Header.Get("Content-Type"), string(text)
	}
	for _, page := range [][2]string{{"", "text/html,*/*"}, {"?format=html", ""}} {
		kind, body := get(page[0], page[1])
		assert.Contains(t, kind, "text/html")
		assert.Contains(t, body, "&lt;script&gt;", "texts of engines are escaped")
		assert.NotContains(t, body, "<script>")
		assert.NotContains(t, body, "<b>mystery")
		assert.NotContains(t, body, "<i>NCCL")
		assert.Contains(t, body, "Not acknowledged: 9 frames, the first for an open step.")
		assert.Contains(t, body, "</html>")
	}
	for _, data := range [][2]string{{"", "*/*"}, {"?format=json", "text/html"}} {
		kind, body := get(data[0], data[1])
		assert.Equal(t, "application/json", kind)
		var s Status
		require.NoError(t, json.Unmarshal([]byte(body), &s))
		assert.Len(t, s.Sessions, 3)
	}
}

// Software tracing on a GPU without HES is as it should be.
func TestSoftwareTracingIsNoProblem(t *testing.T) {
	s := NewStatus(time.Unix(1, 0), Receiver{Version: "v", Rules: "2"}, []fleet.Session{{ID: 1, Connected: true, Reports: []engine.Report{{
		Info: map[string]string{"mode": "software", "mode_reason": "this GPU has no HES"}, Readable: true}}}})
	assert.Empty(t, s.Problems)
	assert.Equal(t, "this GPU has no HES", s.Sessions[0].ModeReason)
}

func TestASessionWithoutSteps(t *testing.T) {
	check := func(want string, kernels, steps uint64, unmatched ...ranges.Unmatched) {
		t.Helper()
		s := NewStatus(time.Unix(1, 0), Receiver{Version: "v", Rules: "2"}, []fleet.Session{{ID: 1, Connected: true, Reports: []engine.Report{{
			Info: map[string]string{"mode": "hes", "run": "r"}, Readable: true, Kernels: kernels, StepRanges: steps,
			Ranges: &engine.RangesReport{Unmatched: unmatched}}}}})
		if want == "" {
			assert.Empty(t, s.Problems)
			return
		}
		assert.Equal(t, []string{"rank 0 of run r: " + want}, s.Problems)
	}
	main := ranges.Unmatched{Text: "it's #.# of main", Example: "it's 1.5 of main", Domain: "d", Kernels: 9, NS: 5e9}
	vllm := ranges.Unmatched{Text: "execute_new_#_cached_#", Example: "execute_new_1_cached_7", Kernels: 8, NS: 4e9}
	check("", someKernels-1, 0, main)
	check("", 5000, 1, main)
	check(`5000 kernels and no step so far: no NVTX range was open where they were launched. docs/engines.md has the switch of each engine; `+
		`or paste into the engine: with kernhes.step("decode"): …`, 5000, 0)
	check(`5000 kernels and no step so far: no NVTX range matches a pattern. 5.0 s of kernel time lie in ranges "it's #.# of main" of domain d. `+
		`Paste into the settings of the receiver: patterns: [{domain: 'd', match: '^it''s \d+\.\d+ of main$', program: step}]`, 5000, 0, main)
	check(`5000 kernels and no step so far: no NVTX range matches a pattern. 4.0 s of kernel time lie in ranges "execute_new_#_cached_#". `+
		`Paste into the settings of the receiver: patterns: [{preset: vllm}]`, 5000, 0, main, vllm)
}
