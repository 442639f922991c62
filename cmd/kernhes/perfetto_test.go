package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/parquet"
)

// archiveOf writes the tables of both ranks of a recording, once for each run, and returns the ranks.
func archiveOf(t *testing.T, dir string, runs ...string) (ranks []chunktest.Rank) {
	t.Helper()
	for n, name := range []string{"tp2.rank0", "tp2.rank1"} {
		recording, err := krec.Read(filepath.Join("../../testdata/recordings", name+".krec.zst"))
		require.NoError(t, err)
		ranks = append(ranks, chunktest.Ranks(recording, "", int64(n))...)
	}
	for _, table := range parquet.Tables {
		file, err := os.Create(filepath.Join(dir, string(table)+".parquet"))
		require.NoError(t, err)
		w, err := parquet.NewWriter(file, table, parquet.Options{RowGroupRows: 10_000})
		require.NoError(t, err)
		for _, run := range runs {
			for _, rank := range ranks {
				rank.Identity.Run = run
				p := chunk.NewPacker(rank.Identity, func(s *chunk.Sealed) {
					c, err := chunk.Unpack(s.Body)
					require.NoError(t, err)
					require.NoError(t, w.WriteChunk(c))
				})
				for i := range rank.Steps {
					require.NoError(t, p.Add(&rank.Steps[i]))
				}
				p.AddCopies(rank.Copies)
				p.Cut()
			}
		}
		require.NoError(t, w.Close(nil))
		require.NoError(t, file.Close())
	}
	return ranks
}

func TestPerfettoReadsAStepOfAllRanks(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine: the race detector has nothing to see")
	}
	dir := t.TempDir()
	ranks := archiveOf(t, dir, "one", "two")
	a, err := openArchive([]string{dir})
	require.NoError(t, err)
	require.Len(t, a, len(parquet.Tables))

	for _, at := range []int{0, 20, 70, 100} { // a prefill, decodes; before that at 70 other work kept rank 1's card
		want := ranks[0].Steps[at]
		step, err := readStep(a, wanted{"two", want.Seq, -1})
		require.NoError(t, err)
		assert.Equal(t, "two", step.Run)
		require.Len(t, step.Ranks, 2)
		for n := range ranks {
			want, got := ranks[n].Steps[at], step.Ranks[n]
			assert.EqualValues(t, n, got.Rank)
			assert.Equal(t, []any{want.Program, want.Vars, want.Start, want.End, want.Foreign}, []any{got.Program, got.Vars, got.Start, got.End, got.Foreign})
			require.Len(t, got.Kernels, len(want.Starts))
			for i, k := range got.Kernels {
				pos := &want.Shape.Positions[i]
				require.Equal(t, fmt.Sprint(want.Starts[i], want.Starts[i]+want.Durs[i], pos.Call, pos.Op, pos.Stream, pos.Grid, pos.Block),
					fmt.Sprint(k.Start, k.End, k.Call, k.Op, k.Stream, k.Grid, k.Block))
			}
		}
	}

	_, err = readStep(a, wanted{"three", 1, -1})
	require.ErrorIs(t, err, errNoStep)
	_, err = readStep(a, wanted{"", 1 << 40, -1})
	require.ErrorIs(t, err, errNoStep)
}

func TestPerfettoCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine: the race detector has nothing to see")
	}
	dir := t.TempDir()
	ranks := archiveOf(t, dir, "one")
	to := filepath.Join(t.TempDir(), "step.pftrace")
	var out bytes.Buffer
	require.NoError(t, run([]string{"perfetto", "--seq", fmt.Sprint(ranks[0].Steps[20].Seq), "-o", to, dir}, &out))
	kernels := len(ranks[0].Steps[20].Starts) + len(ranks[1].Steps[20].Starts)
	assert.Contains(t, out.String(), fmt.Sprintf("of run one, 2 ranks, %d kernels", kernels))
	written, err := os.ReadFile(to)
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, run([]string{"perfetto", "--seq", fmt.Sprint(ranks[0].Steps[20].Seq), "-o", "-", dir}, &out))
	assert.Equal(t, written, out.Bytes())

	again := []string{"perfetto", "--seq", "1", "-o", to, dir}
	require.ErrorIs(t, run(again, &out), os.ErrExist)
	kept, err := os.ReadFile(to)
	require.NoError(t, err)
	assert.Equal(t, written, kept)
	require.NoError(t, run(slices.Insert(again, 1, "--force"), &out))
	other, err := os.ReadFile(to)
	require.NoError(t, err)
	assert.NotEqual(t, written, other)
	left, err := os.ReadDir(filepath.Dir(to))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing but the trace")

	require.ErrorIs(t, run([]string{"perfetto", dir}, &out), errUsage)
	require.ErrorIs(t, run([]string{"perfetto", "--seq", "1"}, &out), errUsage)
	require.ErrorContains(t, run([]string{"perfetto", "--seq", "1", t.TempDir()}, &out), "no *.parquet file")
	require.ErrorIs(t, run([]string{"perfetto", "--seq", "1", filepath.Join(dir, "nothing")}, &out), os.ErrNotExist)
	broken := filepath.Join(t.TempDir(), "broken.parquet")
	require.NoError(t, os.WriteFile(broken, []byte("no"), 0o600))
	require.ErrorContains(t, run([]string{"perfetto", "--seq", "1", broken}, &out), "broken.parquet")
}

// smallArchive writes steps of one kernel each: by session, at a time after a second that suits.
func smallArchive(t *testing.T, dir string, steps map[chunk.Identity][]chunk.Step) {
	t.Helper()
	for _, table := range parquet.Tables {
		file, err := os.Create(filepath.Join(dir, string(table)+".parquet"))
		require.NoError(t, err)
		w, err := parquet.NewWriter(file, table, parquet.Options{})
		require.NoError(t, err)
		for id, all := range steps {
			c := &chunk.Chunk{Identity: id}
			for _, s := range all {
				s.Shape = &chunk.Shape{Positions: []chunk.Position{{Name: "k"}}}
				s.Launches, s.Starts, s.Durs = make([]chunk.Launch, 1), []uint64{s.Start}, []uint64{5}
				s.Kernels, s.Last, s.Pairs, s.End, s.Program = 1, true, true, s.Start+5, "decode"
				c.Steps = append(c.Steps, s)
			}
			require.NoError(t, w.WriteChunk(c))
		}
		require.NoError(t, w.Close(nil))
		require.NoError(t, file.Close())
	}
}

// TestPerfettoReadsAllStepsOfANumber: the engine gave seq 67 twice on each rank, and another run has it too.
func TestPerfettoReadsAllStepsOfANumber(t *testing.T) {
	const again = 1<<61 | 1<<48 | 67
	dir := t.TempDir()
	of := func(at uint64) []chunk.Step {
		return []chunk.Step{{Seq: 67, Start: at}, {Seq: 68, Start: at + 10}, {Seq: again, Occurrence: 1, Start: at + 20}}
	}
	smallArchive(t, dir, map[chunk.Identity][]chunk.Step{
		{Run: "run", Rank: 0, Session: 1}:                of(1000),
		{Run: "run", Rank: 1, Session: 2}:                of(1001),
		{Run: "older", Rank: 0, Session: 3}:              of(500),
		{Run: "name", Rank: 0, Session: 5}:               of(200),
		{Run: "name#2", Rank: 0, Session: 6}:             of(300),
		{Run: "older", Rank: 0, Session: 4, Host: "two"}: {{Seq: 1<<62 | 9, Start: 600}},
	})
	a, err := openArchive([]string{dir})
	require.NoError(t, err)
	check := func(w wanted, run string, starts ...uint64) {
		t.Helper()
		step, err := readStep(a, w)
		require.NoError(t, err)
		require.Equal(t, run, step.Run)
		var got []uint64
		for _, r := range step.Ranks {
			require.Len(t, r.Kernels, 1)
			require.Equal(t, r.Start, r.Kernels[0].Start)
			require.Equal(t, r.Occurrence > 0, (r.Start-run0[run])%100 >= 20)
			got = append(got, r.Start)
		}
		slices.Sort(got)
		require.Equal(t, starts, got)
	}
	check(wanted{"", 67, -1}, "run", 1000, 1001, 1020, 1021)
	check(wanted{"", 67, 0}, "run", 1000, 1001)
	check(wanted{"", 67, 1}, "run", 1020, 1021)
	check(wanted{"", again, -1}, "run", 1020, 1021)
	check(wanted{"older", 67, -1}, "older", 500, 520)
	check(wanted{"", 68, -1}, "run", 1010, 1011)
	check(wanted{"", 1<<62 | 9, -1}, "older", 600)
	check(wanted{"name", 67, -1}, "name#2", 300, 320) // the newest start
	check(wanted{"name#", 67, -1}, "name", 200, 220)

	var out bytes.Buffer
	to := filepath.Join(t.TempDir(), "x.pftrace")
	require.NoError(t, run([]string{"perfetto", "--seq", "67", "-o", to, dir}, &out))
	require.Equal(t, to+": step 67 of run run, 2 ranks, 4 kernels; ranks have the step again, 2 times in all (--occurrence N: one of them)\n", out.String())
}

// run0 is when the first step of a run starts.
var run0 = map[string]uint64{"run": 1000, "older": 500, "name": 200, "name#2": 300}
