package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const selftestText = `Tests kernhes on this machine's GPU. A small engine of its own, kernhes-selftest, runs steps of graphs and of eager launches in
child processes: first bare, then with the shim in the mode asked for. It counts its own kernels, and measures its steps by CUDA
events. All of its kernels must come, and their times must agree. It says what the mode costs. No collector is needed, and no
CUDA toolkit; CUPTI is (see kernhes doctor). Exit status 0: all is exact.`

var (
	errNoSelftest = errors.New("kernhes-selftest was not found")
	errNoGPU      = errors.New("there is no GPU to test on")
	errNotExact   = errors.New("not all is exact")
)

// A toldStep is a step as the engine tells of it.
type toldStep struct {
	seq               uint64
	kind              string
	launches, kernels int
	host, event       float64 // ns; event 0: not measured
}

// A told engine is what kernhes-selftest printed.
type toldEngine struct {
	gpu     string
	steps   []toldStep
	kernels uint64
}

// parseSelftest reads what kernhes-selftest printed.
func parseSelftest(text string) (e toldEngine, err error) {
	whole := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "gpu":
			e.gpu = value
		case "kernels":
			whole = true
			if e.kernels, err = strconv.ParseUint(value, 10, 64); err != nil {
				return e, err
			}
		case "step":
			var s toldStep
			if _, err := fmt.Sscan(value, &s.seq, &s.kind, &s.launches, &s.kernels, &s.host, &s.event); err != nil {
				return e, fmt.Errorf("%q: %w", value, err)
			}
			e.steps = append(e.steps, s)
		}
	}
	if !whole {
		return e, errors.New("kernhes-selftest did not come to its end")
	}
	return e, nil
}

// A selftestResult is what came out. Costs are of a step of that kind, in µs.
type selftestResult struct {
	GPU      string         `json:"gpu"`
	Asked    string         `json:"mode_asked"`
	Mode     string         `json:"mode"`
	Reason   string         `json:"mode_reason,omitempty"`
	CUPTI    string         `json:"cupti_version"`
	Exact    bool           `json:"exact"`
	Faults   []string       `json:"faults"`
	Windows  int            `json:"windows,omitempty"`
	Kernels  uint64         `json:"kernels_counted"`  // by the engine, in the steps that were compared
	Records  uint64         `json:"kernels_recorded"` // by kernhes, of these
	Lost     uint64         `json:"lost"`
	Unknown  uint64         `json:"records_without_launch"`
	Kinds    []selftestKind `json:"steps"`
	Outside  uint64         `json:"steps_outside_windows,omitempty"`
	Compared uint64         `json:"steps_compared"`
}

// A selftestKind is the steps of a kind: medians, µs.
type selftestKind struct {
	Kind    string  `json:"kind"`
	Bare    float64 `json:"bare_us"`
	Traced  float64 `json:"traced_us"`
	Outside float64 `json:"outside_windows_us,omitempty"`
	Event   float64 `json:"by_events_us"`  // from before the first kernel to behind the last, by CUDA events; 0: not measured
	Span    float64 `json:"by_records_us"` // the same by the records
	Off     float64 `json:"difference_us"` // median of what they differ by
	PerKern float64 `json:"cost_us_a_kernel"`
}

// selftest runs the engine bare and traced, and tells.
func selftest(args []string, out io.Writer) error {
	f := flags("selftest", "[FLAGS]", selftestText)
	mode := f.String("mode", "software", "software, windows or hes")
	seconds := f.Float64("seconds", 5, "how long each of the two processes runs steps; windows need 5 at least")
	nodes := f.Int("kernels", 100, "of a step")
	library := f.String("lib", "", "path of libkernhes.so (default: beside kernhes)")
	engine := f.String("engine", "", "path of kernhes-selftest (default: beside kernhes)")
	cupti := f.String("cupti", "", "path of libcupti (default: KERNHES_CUPTI, else the one that is found)")
	asJSON := f.Bool("json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	variables := map[string][]string{"software": {"KERNHES_SOFTWARE=on", "KERNHES_HES=off"}, "windows": {"KERNHES_SOFTWARE=windows", "KERNHES_HES=off"}, "hes": {"KERNHES_HES=on", "KERNHES_SOFTWARE=off"}}[*mode]
	if variables == nil || f.NArg() > 0 || *nodes < 1 || *nodes > 100_000 || !(*seconds > 0) {
		return fmt.Errorf("selftest: want --mode software, windows or hes, --kernels 1 to 100000, and no arguments: %w", errUsage)
	}
	path, err := findBeside(*library, "libkernhes.so", errNoLibrary)
	if err != nil {
		return err
	}
	program, err := findBeside(*engine, "kernhes-selftest", errNoSelftest)
	if err != nil {
		return err
	}
	if *cupti == "" {
		if *cupti = os.Getenv("KERNHES_CUPTI"); *cupti == "" {
			*cupti = findCUPTI("", os.LookupEnv)
		}
	}
	if *cupti != "" {
		variables = append(variables, "KERNHES_CUPTI="+*cupti)
	}
	arguments := []string{strconv.FormatFloat(*seconds, 'f', -1, 64), strconv.Itoa(*nodes)}
	none := func(string) (string, bool) { return "", false }
	bare, err := runSelftest(program, arguments, []string{"CUDA_INJECTION64_PATH=", "NVTX_INJECTION64_PATH=", "LD_PRELOAD="})
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "kernhes-selftest")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	hearer, err := hear(filepath.Join(folder, "k.sock"), *mode == "windows")
	if err != nil {
		return err
	}
	variables = append(append(injection(path, none), variables...), "KERNHES_ENDPOINT=unix://"+filepath.Join(folder, "k.sock"), "KERNHES_LINGER_MS=3000",
		"KERNHES_TOKEN=", "KERNHES_RUN=selftest", "KERNHES_RANK=0")
	if *mode == "windows" {
		variables = append(variables, preload(path, none))
	} else {
		variables = append(variables, "LD_PRELOAD=")
	}
	traced, err := runSelftest(program, arguments, variables)
	heard := hearer.close()
	if err != nil {
		return err
	}
	r := compare(*mode, bare, traced, heard)
	if err := r.print(out, *asJSON); err != nil {
		return err
	}
	if !r.Exact {
		return errNotExact
	}
	return nil
}

// runSelftest runs the engine as a child process.
func runSelftest(program string, args, variables []string) (toldEngine, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = merge(os.Environ(), variables)
	var said strings.Builder
	c.Stderr = &said
	text, err := c.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 2:
		return toldEngine{}, fmt.Errorf("selftest: %s: %w", strings.TrimSpace(said.String()), errNoGPU)
	case err != nil:
		return toldEngine{}, fmt.Errorf("selftest: the engine failed: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return parseSelftest(string(text))
}

// Bounds of what times by records and by events may differ by: an event is a command of its own on the stream.
const (
	eventSlack = 20_000 // ns
	eventShare = 0.02
)

// leastCompared is how many steps must have been compared.
const leastCompared = 10

// compare holds what the shim sent to what the engine counted.
func compare(mode string, bare, traced toldEngine, h *heard) selftestResult {
	r := selftestResult{GPU: traced.gpu, Asked: mode, Mode: h.info["mode"], Reason: h.info["mode_reason"], CUPTI: h.info["cupti_version"], Lost: h.lost,
		Unknown: h.strange, Windows: h.windows, Faults: []string{}}
	fault := func(format string, args ...any) {
		if len(r.Faults) < 10 {
			r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
		}
	}
	if !h.sawMode[mode] {
		fault("the mode is %q, not %q: %s", r.Mode, mode, cmp.Or(r.Reason, "the shim did not connect"))
	}
	times := map[string]*kindTimes{}
	of := func(kind string) *kindTimes {
		if times[kind] == nil {
			times[kind] = &kindTimes{}
		}
		return times[kind]
	}
	for _, s := range bare.steps {
		of(s.kind).bare = append(of(s.kind).bare, s.host)
	}
	for _, s := range traced.steps {
		k, got := of(s.kind), h.steps[s.seq]
		if mode == "windows" && (got == nil || !got.traced || got.cut) {
			if got == nil || !got.cut {
				r.Outside++
				k.outside = append(k.outside, s.host)
			}
			continue
		}
		if got == nil {
			fault("step %d was not heard of", s.seq)
			continue
		}
		r.Compared++
		r.Kernels += uint64(s.kernels)
		records, first, last := got.sum()
		r.Records += uint64(records)
		if len(got.launches) != s.launches || records != s.kernels {
			fault("step %d (%s) has %d launches and %d records, and the engine counted %d and %d", s.seq, s.kind, len(got.launches), records, s.launches, s.kernels)
		}
		k.traced, k.kernels = append(k.traced, s.host), s.kernels
		if s.event > 0 && last > first {
			k.event, k.span = append(k.event, s.event), append(k.span, float64(last-first))
			k.off = append(k.off, math.Abs(s.event-float64(last-first)))
		}
	}
	if r.Compared < leastCompared {
		fault("%d steps could be compared, want %d at least (--seconds)", r.Compared, leastCompared)
	}
	if mode != "windows" && h.records != traced.kernels {
		fault("%d kernels were recorded, and the engine counted %d", h.records, traced.kernels)
	}
	if r.Lost > 0 || r.Unknown > 0 || h.zero > 0 {
		fault("%d records lost, %d without a launch, %d without a time", r.Lost, r.Unknown, h.zero)
	}
	if h.err != nil {
		fault("the wire: %v", h.err)
	}
	for _, kind := range []string{"graph", "eager"} {
		k := of(kind)
		one := selftestKind{Kind: kind, Bare: median(k.bare), Traced: median(k.traced), Outside: median(k.outside), Event: median(k.event), Span: median(k.span), Off: median(k.off)}
		if one.Off > eventSlack+eventShare*one.Event {
			fault("%s: records say %.1f µs a step, and CUDA events %.1f µs", kind, one.Span/1000, one.Event/1000)
		}
		if k.kernels > 0 {
			one.PerKern = (one.Traced - one.Bare) / 1000 / float64(k.kernels)
		}
		for _, v := range []*float64{&one.Bare, &one.Traced, &one.Outside, &one.Event, &one.Span, &one.Off} {
			*v = math.Round(*v/10) / 100
		}
		one.PerKern = math.Round(one.PerKern*1000) / 1000
		r.Kinds = append(r.Kinds, one)
	}
	r.Exact = len(r.Faults) == 0
	return r
}

// kindTimes are times of the steps of a kind, ns.
type kindTimes struct {
	bare, traced, outside, event, span, off []float64
	kernels                                 int
}

func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// print writes a result as a table, or as JSON.
func (r *selftestResult) print(out io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	fmt.Fprintf(out, "GPU %s, CUPTI %s, mode %s\n", r.GPU, cmp.Or(r.CUPTI, "unknown"), cmp.Or(r.Mode, "none"))
	fmt.Fprintf(out, "%d steps compared: the engine counted %d kernels, kernhes recorded %d; %d lost\n", r.Compared, r.Kernels, r.Records, r.Lost)
	if r.Asked == "windows" {
		fmt.Fprintf(out, "%d windows; %d steps outside them\n", r.Windows, r.Outside)
	}
	for _, k := range r.Kinds {
		fmt.Fprintf(out, "%s step: bare %.1f µs, traced %.1f µs (%+.3f µs a kernel)", k.Kind, k.Bare, k.Traced, k.PerKern)
		if k.Outside > 0 {
			fmt.Fprintf(out, ", outside windows %.1f µs", k.Outside)
		}
		if k.Event > 0 {
			fmt.Fprintf(out, "; by events %.1f µs, by records %.1f µs", k.Event, k.Span)
		} else {
			fmt.Fprint(out, "; not measured by events")
		}
		fmt.Fprintln(out)
	}
	for _, f := range r.Faults {
		fmt.Fprintln(out, "FAIL", f)
	}
	if r.Exact {
		fmt.Fprintln(out, "ok: all is exact")
	}
	return nil
}
