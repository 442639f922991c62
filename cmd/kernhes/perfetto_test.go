package main

import (
	"bytes"
	"cmp"
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
	"github.com/kernhes/kernhes/internal/perfetto"
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
	dir := t.TempDir()
	ranks := archiveOf(t, dir, "one", "two")
	a, err := openArchive([]string{dir})
	require.NoError(t, err)
	require.Len(t, a, 3)

	for _, at := range []int{0, 20, 70, 100} { // a prefill, decodes; before that at 70 other work kept rank 1's card
		want := ranks[0].Steps[at]
		step, err := readStep(a, "two", want.Seq)
		require.NoError(t, err)
		assert.Equal(t, "two", step.Run)
		require.Len(t, step.Ranks, 2)
		slices.SortFunc(step.Ranks, func(a, b perfetto.Rank) int { return cmp.Compare(a.Rank, b.Rank) })
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

	_, err = readStep(a, "three", 1)
	require.ErrorIs(t, err, errNoStep)
	_, err = readStep(a, "", 1<<40)
	require.ErrorIs(t, err, errNoStep)
}

func TestPerfettoCommand(t *testing.T) {
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

	require.ErrorIs(t, run([]string{"perfetto", dir}, &out), errUsage)
	require.ErrorIs(t, run([]string{"perfetto", "--seq", "1"}, &out), errUsage)
	require.ErrorContains(t, run([]string{"perfetto", "--seq", "1", t.TempDir()}, &out), "no Parquet file")
	require.ErrorIs(t, run([]string{"perfetto", "--seq", "1", filepath.Join(dir, "nothing")}, &out), os.ErrNotExist)
	broken := filepath.Join(t.TempDir(), "broken.parquet")
	require.NoError(t, os.WriteFile(broken, []byte("no"), 0o600))
	require.ErrorContains(t, run([]string{"perfetto", "--seq", "1", broken}, &out), "broken.parquet")
}
