package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/kernhes/kernhes/internal/perfetto"
)

// writePerfetto is `kernhes perfetto`.
func writePerfetto(args []string, out io.Writer) error {
	f := flags("perfetto", "--seq N [FLAGS] PATH...",
		"Writes one step of all ranks, from an archive of Parquet files, as a trace that ui.perfetto.dev opens.\n"+
			"PATH is a file of table k or s, or a folder with such.")
	seq := f.Int64("seq", -1, "number of the step, as traces and tables have it")
	run := f.String("run", "", "run of the step (default: the newest that has the step)")
	to := f.String("o", "step.pftrace", "file to write, or - for standard output")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *seq < 0 || f.NArg() == 0 {
		return fmt.Errorf("perfetto: want --seq and where the archive is: %w", errUsage)
	}
	a, err := openArchive(f.Args())
	if err != nil {
		return err
	}
	step, err := readStep(a, *run, *seq)
	if err != nil {
		return err
	}
	if *to == "-" {
		return perfetto.Write(out, step)
	}
	file, err := os.Create(*to)
	if err != nil {
		return err
	}
	if err := cmp.Or(perfetto.Write(file, step), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", *to, err)
	}
	kernels := 0
	for i := range step.Ranks {
		kernels += len(step.Ranks[i].Kernels)
	}
	_, err = fmt.Fprintf(out, "%s: step %d of run %s, %d ranks, %d kernels\n", *to, step.Seq, step.Run, len(step.Ranks), kernels)
	return err
}

// A rankKey names a rank's part of a step in the tables.
type rankKey struct {
	run          string
	rank, device uint64
}

func keyOf(r archived) rankKey { return rankKey{r.text("run"), r.uint("rank"), r.uint("device")} }

// readStep reads a step of a run, or of the newest run that has it.
func readStep(a archive, run string, seq int64) (*perfetto.Step, error) {
	parts := map[rankKey]*perfetto.Rank{}
	newest := ""
	var start uint64
	err := a.rows("compute_ns", seq, func(r archived) {
		if run != "" && r.text("run") != run {
			return
		}
		parts[keyOf(r)] = &perfetto.Rank{
			Rank: int64(r.uint("rank")), Host: r.text("host"), GPU: r.text("gpu"), Program: r.text("program"), Vars: r.text("vars"),
			Start: r.uint("start_ns"), End: r.uint("end_ns"),
			Foreign: r.uint("foreign_compute_ns"),
		}
		if s := r.uint("start_ns"); s > start || newest == "" {
			newest, start = r.text("run"), s
		}
	})
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("step %d: %w", seq, errNoStep)
	}
	positions := map[rankKey][]int64{}
	err = a.rows("kernel", seq, func(r archived) {
		key := keyOf(r)
		part := parts[key]
		if part == nil || key.run != newest {
			return
		}
		part.Kernels = append(part.Kernels, kernelOf(r))
		positions[key] = append(positions[key], int64(r.uint("pos")))
	})
	if err != nil {
		return nil, err
	}
	step := &perfetto.Step{Run: newest, Seq: uint64(seq)}
	for key, part := range parts {
		if key.run == newest {
			part.Kernels = inOrder(part.Kernels, positions[key])
			step.Ranks = append(step.Ranks, *part)
		}
	}
	return step, nil
}

// errNoStep says that the archive does not have what was asked for.
var errNoStep = errors.New("no file has it")

func kernelOf(r archived) perfetto.Kernel {
	size := func(of string) [3]uint64 { return [3]uint64{r.uint(of + "_x"), r.uint(of + "_y"), r.uint(of + "_z")} }
	return perfetto.Kernel{
		Start: r.uint("start_ns"), End: r.uint("start_ns") + r.uint("dur_ns"), Stream: r.uint("stream"),
		Name: r.text("kernel"), Call: r.text("call"), Op: r.text("op"), Class: r.text("class"), Fused: r["fused"].Boolean(),
		Grid: size("grid"), Block: size("block"),
	}
}

// inOrder puts kernels in the order of their positions.
func inOrder(kernels []perfetto.Kernel, positions []int64) []perfetto.Kernel {
	index := make([]int, len(kernels))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(positions[a], positions[b]) })
	ordered := make([]perfetto.Kernel, len(kernels))
	for to, from := range index {
		ordered[to] = kernels[from]
	}
	return ordered
}
