package duckdb_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/oracle"
	"github.com/kernhes/kernhes/internal/parquet"
)

// root is the repository.
const root = ".."

// write writes ranks into an archive, as files whose names begin with name.
func write(t testing.TB, dir, name string, ranks ...chunktest.Rank) {
	t.Helper()
	for _, table := range parquet.Tables {
		var b bytes.Buffer
		w, err := parquet.NewWriter(&b, table, parquet.Options{RowGroupRows: 1 << 14})
		require.NoError(t, err)
		for _, r := range ranks {
			for _, body := range packed(t, r) {
				c, err := chunk.Unpack(body)
				require.NoError(t, err)
				require.NoError(t, w.WriteChunk(c))
			}
		}
		require.NoError(t, w.Close(nil))
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+"."+string(table)+".parquet"), b.Bytes(), 0o600))
	}
}

// packed are the chunks of a rank.
func packed(t testing.TB, r chunktest.Rank) (bodies [][]byte) {
	t.Helper()
	p := chunk.NewPacker(r.Identity, func(s *chunk.Sealed) { bodies = append(bodies, bytes.Clone(s.Body)) })
	for i := range r.Steps {
		require.NoError(t, p.Add(&r.Steps[i]))
	}
	p.AddCopies(r.Copies)
	p.Cut()
	return bodies
}

var known = map[string]*recording{}

// A recording is read once, and what the oracle says of it.
type recording struct {
	*krec.Recording
	work *oracle.Work
}

func record(t testing.TB, name string) *recording {
	t.Helper()
	if known[name] == nil {
		r, err := krec.Read(filepath.Join(root, "testdata", "recordings", name+".krec.zst"))
		require.NoError(t, err)
		known[name] = &recording{r, oracle.Do(r, oracle.NCCL)}
	}
	return known[name]
}

var worked = map[[2]string][]chunktest.Rank{}

// ranks are those of a recording, in a run. They are shared: don't change them.
func ranks(t testing.TB, name, run string, rank int64) []chunktest.Rank {
	t.Helper()
	key := [2]string{name, run}
	if worked[key] == nil {
		worked[key] = chunktest.Ranks(record(t, name).Recording, run, rank)
	}
	return worked[key]
}

func tp2(t testing.TB, run string) []chunktest.Rank {
	t.Helper()
	return slices.Concat(ranks(t, "tp2.rank0", run, 0), ranks(t, "tp2.rank1", run, 1))
}

func solo(t testing.TB, run string) []chunktest.Rank {
	t.Helper()
	return ranks(t, "solo.rank0", run, 0)
}

// A figures is what a recording's expect.json says.
type figures struct {
	Kernels     int64 `json:"kernels"`
	InSteps     int64 `json:"in_steps"`
	CommKernels int64 `json:"comm_kernels"`
	Called      int64 `json:"called"`
	First       int64 `json:"first_ns"`
	Last        int64 `json:"last_ns"`
	Idle        int64 `json:"idle_ns"`
	Copies      map[string]int64
	Steps       []expectedStep
}

// An expectedStep is a row of it: text, then kernels, compute, comm, overlap, wall and foreign compute in ns.
type expectedStep struct {
	text    string
	numbers []int64
}

func (s *expectedStep) UnmarshalJSON(b []byte) error {
	s.numbers = make([]int64, 6)
	n := s.numbers
	var complete bool
	return json.Unmarshal(b, &[]any{&s.text, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &complete})
}

func expected(t testing.TB, name string) (f figures) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "testdata", "recordings", name+".expect.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &f))
	return f
}

// open opens an archive as `make sql` does.
func open(t testing.TB, a duck.Archive) *db {
	t.Helper()
	d, err := duck.Open(a, filepath.Join(root, "queries", "views.sql"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return &db{t, d}
}
