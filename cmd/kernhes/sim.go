package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/kernhes/kernhes/internal/sim"
	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/program"
)

const simText = `Simulates an inference engine of several ranks, without a GPU. It sends to a collector what the shim
of a real engine sends, so you can try alerts, dashboards and queries.

The engine serves requests that arrive at random. Its programs resemble those of a
mixture-of-experts model of 43 layers: prefill launches its kernels one by one, decode replays a
graph of about 670 kernels. In each layer the ranks meet in one kernel: each enters when its own
work is done, and all leave together.

Simulated time passes as real time does, and Ctrl-C ends the engine with BYE. With --flat-out the
ranks send as fast as the collector acknowledges. Equal flags and --seed give an equal simulation.

With --truth FILE the simulation writes what really happened, as JSON lines: the times of each
step, each wait with the rank that caused it and why, and each fault. docs/sim.md has the schema.

Layouts: dp4ep4 (4 ranks), tp2dp4 (8 ranks), pp2tp4 (8 ranks), or dpN for N ranks that share the
experts.

Faults and changes: --fault KIND:KEY=VALUE,... may be given several times. Keys:

  rank=N, rank=all    the ranks it concerns (default: rank 0, or all where no rank is named below)
  at=10s              when it begins, after the start (default: at the start)
  for=5s              how long it lasts (default: up to the end)
  amount=X            how large it is (defaults below)
  every=1s, match=TEXT, layer=N
                      where a kind names them below

`

const simExamples = `
Examples:
  kernhes sim --duration 10m
  kernhes sim --fault foreign_gemm:rank=2,at=60s,for=2m,every=200ms,amount=3 --truth truth.jsonl
  kernhes sim --layout tp2dp4 --fault slow_link:rank=5,at=1m --fault restart:at=3m
  kernhes sim --flat-out --duration 1m --endpoint /run/kernhes/kernhes.sock
  kernhes sim --window 1s --every 30s`

// simHelp lists the kinds of faults.
func simHelp() string {
	var b strings.Builder
	b.WriteString(simText)
	for _, bad := range []bool{true, false} {
		if !bad {
			b.WriteString("\n  Changes that are no faults:\n")
		}
		for _, k := range fault.Kinds {
			if k.Fault != bad {
				continue
			}
			amount := ""
			if k.Unit != "" {
				amount = fmt.Sprintf(" (amount=%g %s)", k.Amount, k.Unit)
			}
			fmt.Fprintf(&b, "  %-19s %s%s\n", k.Name, k.Text, amount)
		}
	}
	return b.String() + simExamples
}

// faultFlags are those of --fault.
type faultFlags fault.Schedule

func (f *faultFlags) String() string { return "" }

func (f *faultFlags) Set(text string) error {
	e, err := fault.Parse(text)
	if err == nil {
		*f = append(*f, e)
	}
	return err
}

// simulate runs a simulated fleet.
func simulate(args []string, out io.Writer) error {
	c := sim.Defaults()
	f := flags("sim", "[FLAGS]", simHelp())
	f.StringVar(&c.Endpoint, "endpoint", "unix:///run/kernhes/kernhes.sock", "where the collector listens: a socket, or tcp://host:port")
	layout := f.String("layout", c.Layout.Name, "how ranks share the model")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "decides everything that is random")
	f.StringVar(&c.Run, "run", "", "name of the run (default: sim- and the time)")
	identity := f.String("identity", string(c.Identity), "env: each rank tells its run and rank; nccl: the collector learns both from NCCL's payloads")
	f.DurationVar(&c.Duration, "duration", c.Duration, "how long is simulated")
	f.IntVar(&c.Steps, "steps", 0, "end after so many steps (default: when the duration is over)")
	flat := f.Bool("flat-out", false, "as fast as the collector acknowledges, not as time passes")
	f.Float64Var(&c.Load.Rate, "rate", c.Load.Rate, "requests a second, of all ranks together")
	f.IntVar(&c.Load.Burst, "burst", c.Load.Burst, "requests that come at once, in each --burst-every")
	f.DurationVar(&c.Load.BurstEvery, "burst-every", c.Load.BurstEvery, "time between bursts; 0: none")
	f.IntVar(&c.Load.Prompt, "prompt", c.Load.Prompt, "median tokens of a prompt")
	f.IntVar(&c.Load.Output, "output", c.Load.Output, "mean tokens of an output")
	f.IntVar(&c.Load.Sequences, "sequences", c.Load.Sequences, "requests that a rank computes at once, at most")
	f.BoolVar(&c.Load.Mixed, "mixed", false, "compute prompts and running requests in one batch")
	f.DurationVar(&c.Window, "window", 0, "trace only windows of that length, one in each --every; 0: trace all")
	f.DurationVar(&c.Every, "every", c.Every, "from one window to the next")
	f.BoolVar(&c.Untraced, "ranges-only", false, "trace no kernel: send ranges only")
	f.Uint64Var(&c.Disorder, "disorder", 0, "send records up to a second late, shuffled by this seed; 0: as they end")
	f.IntVar(&c.Cut, "reconnect", 0, "connect anew after so many frames; 0: never")
	path := f.String("truth", "", "a `file` for the truth")
	f.BoolVar(&c.Waits, "waits", true, "write each meeting of ranks into the truth")
	var schedule faultFlags
	f.Var(&schedule, "fault", "a `fault` or change, as above")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("sim: unexpected %q: %w", f.Arg(0), errUsage)
	}
	var err error
	if c.Layout, err = program.ParseLayout(*layout); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	c.Schedule, c.Paced, c.Identity = fault.Schedule(schedule), !*flat, sim.Identity(*identity)
	if c.Run != "" && c.Identity == sim.NCCL {
		return fmt.Errorf("sim: --run with --identity nccl: NCCL's communicator names the run: %w", errUsage)
	}
	if c.Run == "" {
		c.Run = "sim-" + time.Now().UTC().Format("20060102T150405")
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends it at once
	return simulateTo(ctx, c, *path, out)
}

// sayIfNoCollector says that ranks will wait, if the endpoint is a socket that is not there.
func sayIfNoCollector(endpoint string, out io.Writer) {
	socket := strings.TrimPrefix(endpoint, "unix://")
	if strings.Contains(socket, "://") {
		return
	}
	if _, err := os.Stat(socket); err != nil {
		fmt.Fprintf(out, "no collector at --endpoint %s yet: waiting for one\n", endpoint)
	}
}

// simulateTo runs a simulation, writes its truth to a file, and says how much there was.
func simulateTo(ctx context.Context, c sim.Config, path string, out io.Writer) (err error) {
	if path != "" {
		file, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("sim: --truth: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		c.Truth = file
	}
	c.Began = func(run string) {
		fmt.Fprintf(out, "run %s: %d ranks of %s, to %s\n", run, c.Layout.Ranks(), c.Layout.Name, c.Endpoint)
	}
	sayIfNoCollector(c.Endpoint, out)
	r, err := sim.Run(ctx, c)
	sumUp(r, out)
	if err != nil {
		return fmt.Errorf("sim: %w", err)
	}
	return nil
}

// sumUp prints what a simulation sent.
func sumUp(r sim.Result, out io.Writer) {
	rate := float64(r.Kernels) / max(r.Took.Seconds(), 1e-9)
	fmt.Fprintf(out, "%d steps, %d kernels, %.1f MB in %v (%v simulated): %.0f kernels/s; ended: %s\n",
		r.Steps, r.Kernels, float64(r.Bytes)/1e6, r.Took.Round(time.Millisecond), r.Simulated.Round(time.Millisecond), rate, r.Ended)
	if r.Dropped > 0 {
		fmt.Fprintf(out, "%d kernels, copies and events were dropped, since the collector did not acknowledge them in time\n", r.Dropped)
	}
}
