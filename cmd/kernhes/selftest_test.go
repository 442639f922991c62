package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// selftestStory is twelve graph steps of two kernels behind one that holds the stream, bare at 100 µs and traced at 112 µs, as the
// engine and the shim tell of them. By events a step takes 21 µs, by records 20 µs.
func selftestStory(t *testing.T) (bare, traced toldEngine, h *heard) {
	text := "gpu=H200\n"
	for range 12 {
		text += "step=0 graph 2 3 100000 21000\n"
	}
	bare, err := parseSelftest(text + "kernels=36\n")
	require.NoError(t, err)
	h = &heard{info: map[string]string{"mode": "software"}, sawMode: map[string]bool{"software": true}, steps: map[uint64]*heardStep{}, records: 36}
	traced = toldEngine{gpu: "H200", kernels: 36}
	for seq := range uint64(12) {
		traced.steps = append(traced.steps, toldStep{seq, "graph", 2, 3, 112_000, 21_000})
		h.steps[seq] = &heardStep{traced: true, launches: []*heardLaunch{{1, 100, 900}, {2, 1000, 21_000}}}
	}
	return bare, traced, h
}

func TestSelftestCompares(t *testing.T) {
	check := func(mode string, change func(traced *toldEngine, h *heard), want ...string) selftestResult {
		t.Helper()
		bare, traced, h := selftestStory(t)
		change(&traced, h)
		r := compare(mode, bare, traced, h)
		require.Len(t, r.Faults, len(want), "%q", r.Faults)
		for i, one := range want {
			assert.Contains(t, r.Faults[i], one)
		}
		assert.Equal(t, len(want) == 0, r.Exact)
		return r
	}
	r := check("software", func(*toldEngine, *heard) {})
	assert.Equal(t, selftestKind{Kind: "graph", Bare: 100, Traced: 112, Event: 21, Span: 20, Off: 1, PerKern: 4}, r.Kinds[0])
	assert.EqualValues(t, 36, r.Records)
	check("software", func(_ *toldEngine, h *heard) { h.steps[3].launches[1].records, h.records = 1, 35 },
		"step 3 (graph) has 2 launches and 2 records, and the engine counted 2 and 3", "35 kernels were recorded, and the engine counted 36")
	check("software", func(_ *toldEngine, h *heard) { delete(h.steps, 3) }, "step 3 was not heard of")
	check("software", func(_ *toldEngine, h *heard) { h.lost = 2 }, "2 records lost")
	check("software", func(_ *toldEngine, h *heard) { h.zero = 1 }, "1 without a time")
	check("software", func(told *toldEngine, _ *heard) {
		for i := range told.steps {
			told.steps[i].event = 60_000
		}
	}, "records say 20.0 µs a step, and CUDA events 60.0 µs")
	check("software", func(_ *toldEngine, h *heard) {
		h.sawMode, h.info = nil, map[string]string{"mode": "off", "mode_reason": "no HES"}
	},
		`the mode is "off", not "software": no HES`)

	windows := func(change func(h *heard)) func(*toldEngine, *heard) {
		return func(_ *toldEngine, h *heard) {
			h.sawMode["windows"] = true
			change(h)
		}
	}
	r = check("windows", windows(func(h *heard) { h.steps[0].traced, h.steps[1].cut = false, true }))
	assert.EqualValues(t, 10, r.Compared)
	assert.EqualValues(t, 1, r.Outside, "one that an edge cuts is neither")
	check("windows", windows(func(h *heard) {
		for _, s := range h.steps {
			s.traced = false
		}
	}), "0 steps could be compared")
}

func TestSelftestReads(t *testing.T) {
	_, err := parseSelftest("gpu=x\nstep=0 graph 2 3 100 21\n")
	require.ErrorContains(t, err, "did not come to its end")
	_, err = parseSelftest("step=0 graph\nkernels=1\n")
	require.Error(t, err)
	_, err = parseSelftest("kernels=many\n")
	require.Error(t, err)
}

// TestSelftestWithoutAGPU: it says what is missing, and starts nothing else.
func TestSelftestWithoutAGPU(t *testing.T) {
	folder := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
		return path
	}
	library := put("libkernhes.so", "")
	none := put("none", "#!/bin/sh\necho no GPU that CUDA can use >&2\nexit 2\n")
	ask := func(args ...string) error {
		return run(append([]string{"selftest", "--lib", library}, args...), io.Discard)
	}
	err := ask("--engine", none)
	require.ErrorIs(t, err, errNoGPU)
	assert.Contains(t, err.Error(), "no GPU that CUDA can use")
	assert.ErrorContains(t, ask("--engine", put("broken", "#!/bin/sh\necho cuLaunchKernel: 719 >&2\nexit 3\n")), "cuLaunchKernel: 719")
	assert.ErrorIs(t, ask("--engine", filepath.Join(folder, "nowhere")), errNoSelftest)
	assert.ErrorIs(t, ask("--mode", "none"), errUsage)
	assert.ErrorIs(t, ask("--kernels", "0"), errUsage)
}

// TestSelftestWithoutAShim: an engine that runs well, and of which nothing is heard, is not exact.
func TestSelftestWithoutAShim(t *testing.T) {
	folder := t.TempDir()
	engine := filepath.Join(folder, "engine")
	require.NoError(t, os.WriteFile(engine, []byte("#!/bin/sh\necho gpu=x\necho step=0 graph 2 3 100 21\necho kernels=3\n"), 0o755))
	library := filepath.Join(folder, "libkernhes.so")
	require.NoError(t, os.WriteFile(library, nil, 0o644))
	var out strings.Builder
	err := run([]string{"selftest", "--lib", library, "--engine", engine}, &out)
	require.ErrorIs(t, err, errNotExact)
	assert.Contains(t, out.String(), `FAIL the mode is "", not "software": the shim did not connect`)
	out.Reset()
	require.ErrorIs(t, run([]string{"selftest", "--lib", library, "--engine", engine, "--json"}, &out), errNotExact)
	assert.Contains(t, out.String(), `"exact": false`)
}
