package duckdb_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
)

// TestOldArchives runs the queries of today on the archives of old versions: testdata/compat.
func TestOldArchives(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(root, "testdata/compat/*/archive"))
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	files, err := filepath.Glob(filepath.Join(root, "queries/*.sql"))
	require.NoError(t, err)
	for _, dir := range archives {
		var want struct {
			Kernels, Steps int64
			Compute        int64 `json:"compute_ns"`
			Comm           int64 `json:"comm_ns"`
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "expect.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &want))
		d := open(t, duck.Archive{Dir: dir, Run: "compat", DirB: dir, A: "compat", B: "compat"})
		got := d.query(`select count(*) kernels, sum(case when class = 'compute' then dur_ns end) compute,
			sum(case when class = 'comm' then dur_ns end) comm from k where seq is not null`)[0]
		assert.Equal(t, []int64{want.Kernels, want.Compute, want.Comm}, []int64{got.int("kernels"), got.int("compute"), got.int("comm")}, dir)
		assert.Equal(t, want.Steps, d.query("select count(*) steps from s where complete")[0].int("steps"), dir)
		for _, file := range files {
			if filepath.Base(file) != "views.sql" {
				d.run(file)
			}
		}
	}
}
