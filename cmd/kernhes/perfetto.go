package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kernhes/kernhes/internal/perfetto"
	"github.com/kernhes/kernhes/internal/runname"
)

// writePerfetto is `kernhes perfetto`.
func writePerfetto(args []string, out io.Writer) error {
	f := flags("perfetto", "--seq N [FLAGS] PATH...",
		"Writes one step of all ranks, from an archive of Parquet files, as a trace that ui.perfetto.dev opens.\n"+
			"PATH is a file of table k or s, or a folder with such files.")
	seq := f.Int64("seq", -1, "number of the step, as the engine gave it or as column seq has it (required)")
	occurrence := f.Int("occurrence", -1, "which one, from 0, if several steps of a session have that number; -1: all")
	run := f.String("run", "", "run of the step; a name means its newest start that has the step, NAME# the first start (default: the newest run that has it)")
	to := f.String("o", "step.pftrace", "file to write, or - for standard output")
	force := f.Bool("force", false, "overwrite the file if it exists")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *seq < 0 || f.NArg() == 0 {
		return fmt.Errorf("perfetto: --seq and the path of the archive are required: %w", errUsage)
	}
	a, err := openArchive(f.Args())
	if err != nil {
		return err
	}
	step, err := readStep(a, wanted{*run, *seq, *occurrence})
	if err != nil {
		return err
	}
	if *to == "-" {
		return perfetto.Write(out, step)
	}
	if err := writeTrace(*to, *force, step); err != nil {
		return err
	}
	kernels, ranks := 0, map[int64]bool{}
	for i := range step.Ranks {
		kernels += len(step.Ranks[i].Kernels)
		ranks[step.Ranks[i].Rank] = true
	}
	_, err = fmt.Fprintf(out, "%s: step %d of run %s, %d ranks, %d kernels%s\n", *to, step.Seq, step.Run, len(ranks), kernels, more(len(step.Ranks)-len(ranks)))
	return err
}

// more says that ranks have the step several times.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("; ranks have the step again, %d times in all (--occurrence N: one of them)", n)
}

// writeTrace writes a step to a file. What was there stays unless it may be overwritten, and unless the new one is whole.
func writeTrace(to string, force bool, step *perfetto.Step) error {
	if _, err := os.Lstat(to); err == nil && !force {
		return fmt.Errorf("%s: %w: --force overwrites it", to, fs.ErrExist)
	}
	file, err := os.CreateTemp(filepath.Dir(to), ".*.pftrace")
	if err != nil {
		return err
	}
	err = cmp.Or(perfetto.Write(file, step), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), to)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", to, err), os.Remove(file.Name()))
	}
	return nil
}

// A wanted step is one to look for; an empty run, or an occurrence below 0, is any.
type wanted struct {
	run        string
	seq        int64
	occurrence int
}

// has says whether a row is of the step.
func (w *wanted) has(r archived) bool {
	return runname.Is(r.text("run"), w.run) && (w.occurrence < 0 || r.uint("occurrence") == uint64(w.occurrence))
}

// A rankKey names a rank's part of a step in the tables.
type rankKey struct {
	run          string
	rank, device uint64
	session      string
	seq          uint64
}

// compare orders the parts of a step.
func (k rankKey) compare(o rankKey) int {
	return cmp.Or(strings.Compare(k.run, o.run), cmp.Compare(k.rank, o.rank), cmp.Compare(k.device, o.device),
		strings.Compare(k.session, o.session), cmp.Compare(k.seq, o.seq))
}

func keyOf(r archived) rankKey {
	return rankKey{r.text("run"), r.uint("rank"), r.uint("device"), r.text("session"), r.uint("seq")}
}

// readStep reads a step of a run, or of the newest run that has it.
func readStep(a archive, want wanted) (*perfetto.Step, error) {
	parts := map[rankKey]*perfetto.Rank{}
	newest := ""
	var start uint64
	err := a.rows("compute_ns", want.seq, func(r archived) {
		if !want.has(r) {
			return
		}
		part := &perfetto.Rank{
			Rank: int64(r.uint("rank")), Occurrence: r.uint("occurrence"), Host: r.text("host"), GPU: r.text("gpu"), Program: r.text("program"),
			Vars: r.text("vars"), Start: r.uint("start_ns"), End: r.uint("end_ns"),
			Foreign: r.uint("foreign_compute_ns"),
		}
		if other := parts[keyOf(r)]; other != nil { // of a version that gave two steps one number: their kernels cannot be told apart
			part.Start, part.End = min(part.Start, other.Start), max(part.End, other.End)
		}
		parts[keyOf(r)] = part
		if s := r.uint("start_ns"); s > start || s == start && r.text("run") > newest || newest == "" {
			newest, start = r.text("run"), s
		}
	})
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("step %d: %w", want.seq, errNoStep)
	}
	positions := map[rankKey][]int64{}
	err = a.rows("kernel", want.seq, func(r archived) {
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
	step := &perfetto.Step{Run: newest, Seq: uint64(plainSeq(want.seq))}
	for _, key := range slices.SortedFunc(maps.Keys(parts), rankKey.compare) {
		if key.run == newest {
			part := parts[key]
			part.Kernels = inOrder(part.Kernels, positions[key])
			step.Ranks = append(step.Ranks, *part)
		}
	}
	return step, nil
}

// errNoStep says that the archive does not have what was asked for.
var errNoStep = errors.New("no file of the archive has it")

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
