package duckdb_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/parquet"
	"github.com/kernhes/kernhes/internal/parquet/parquettest"
)

// TestShapePagesHoldWhatRowsHold: to DuckDB, a file of shape pages and one that a library wrote a row at a time have the
// same rows, as often; of each recording and of random steps, in each profile.
func TestShapePagesHoldWhatRowsHold(t *testing.T) {
	of := map[string][]*chunk.Chunk{"random": chunktest.Random(11, 400)}
	for _, name := range []string{"solo.rank0", "tp2.rank0", "tp2.rank1"} {
		for _, r := range ranks(t, name, "run", 0) {
			for _, body := range packed(t, r) {
				c, err := chunk.Unpack(body)
				require.NoError(t, err)
				of[name] = append(of[name], c)
			}
		}
	}
	for name, chunks := range of {
		dir := t.TempDir()
		rows := int64(0)
		file, err := os.Create(filepath.Join(dir, "rows.parquet"))
		require.NoError(t, err)
		plain := parquettest.NewWriter(file, 1<<17)
		for _, c := range chunks {
			require.NoError(t, plain.WriteChunk(c))
			rows += int64(c.Rows())
		}
		require.NoError(t, plain.Close())
		require.NoError(t, file.Close())
		for _, profile := range []parquet.Profile{parquet.Fast, parquet.Small} {
			file, err := os.Create(filepath.Join(dir, string(profile)+".parquet"))
			require.NoError(t, err)
			w, err := parquet.NewWriter(file, parquet.Kernels, parquet.Options{Profile: profile, RowGroupRows: 1 << 15})
			require.NoError(t, err)
			for _, c := range chunks {
				require.NoError(t, w.WriteChunk(c))
			}
			require.NoError(t, w.Close(nil))
			require.NoError(t, file.Close())
			conn, err := sql.Open("duckdb", "")
			require.NoError(t, err)
			d := &db{t, conn}
			shapes, library := "'"+filepath.Join(dir, string(profile)+".parquet")+"'", "'"+filepath.Join(dir, "rows.parquet")+"'"
			require.Equal(t, rows, d.query("SELECT count(*) AS n FROM %s", shapes)[0].int("n"), name)
			for _, pair := range [][2]string{{shapes, library}, {library, shapes}} {
				require.Zero(t, d.query("SELECT count(*) AS n FROM (FROM %s EXCEPT ALL FROM %s)", pair[0], pair[1])[0].int("n"), "%s, %s: %v", name, profile, pair)
			}
			require.NoError(t, conn.Close())
		}
	}
}
