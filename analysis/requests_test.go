package duckdb_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// writeChunk writes a chunk's tables.
func writeChunk(t *testing.T, dir string, c *chunk.Chunk) {
	t.Helper()
	for _, table := range parquet.Tables {
		var b bytes.Buffer
		w, err := parquet.NewWriter(&b, table, parquet.Options{})
		require.NoError(t, err)
		require.NoError(t, w.WriteChunk(c))
		require.NoError(t, w.Close(nil))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "x."+string(table)+".parquet"), b.Bytes(), 0o600))
	}
}

// ms is a time in ns.
const ms = 1_000_000

// TestARequestIsFollowedThroughItsSteps: five traced steps of 10 ms, of which the fourth takes 5 ms of compute more, and the fifth waits
// for 4 ms of foreign compute; then two steps that are not traced, one of them measured by a hook.
func TestARequestIsFollowedThroughItsSteps(t *testing.T) {
	c := &chunk.Chunk{Identity: chunk.Identity{Run: "run", Rank: 2, Session: 7, Mode: "windows"}}
	for i := range uint64(7) {
		at := (i + 1) * 20 * ms
		s := chunk.Step{Seq: int64(100 + i), Pairs: true, Program: "decode", Tokens: 2, Seqs: 2, KV: 300, Start: at, End: at + 10*ms, Compute: 8 * ms, Idle: 2 * ms,
			Complete: true, Last: true, Issued: chunk.Issued{Push: at, Pop: at + ms, Thread: 9, Level: 1},
			Requests: []chunk.Request{{ID: "a", Trace: "0af7651916cd43dd8448eb211c80319c", Tokens: 1, Cached: uint32(10 + i)}}}
		switch i {
		case 3:
			s.End, s.Compute = at+15*ms, 13*ms
		case 4:
			s.End, s.Idle, s.Foreign = at+14*ms, 3*ms, 4*ms
		case 5, 6:
			s.Untraced, s.Complete, s.Reason, s.End, s.Compute, s.Idle = true, false, "not_traced", at, 0, 0
		}
		if i == 5 {
			s.Issued.Device = 9 * ms
		}
		if i%2 == 0 {
			s.Requests = append(s.Requests, chunk.Request{ID: "b", Tokens: 1, Cached: 5})
		}
		c.Steps = append(c.Steps, s)
	}
	dir := t.TempDir()
	writeChunk(t, dir, c)
	d := open(t, duck.Archive{Dir: dir})
	require.Equal(t, int64(11), d.query("select count(*) as n from r")[0].int("n"))
	require.Equal(t, []row{{"complete": int64(5), "other": int64(0), "untraced": int64(2)}},
		d.query("select count(*) filter (complete) as complete, count(*) filter (not complete) as other, count(*) filter (not traced) as untraced from s"))
	require.Equal(t, []row{{"ns": int64(20 * ms), "n": int64(6)}}, d.query("select interval_ns as ns, count(*) as n from step_ranges where interval_ns is not null group by all"))

	rows := d.file("request.sql") // the one with the most steps
	require.Len(t, rows, 7)
	for i, want := range []struct {
		measure string
		ns      int64
		slowed  string
	}{
		{"kernels", 10 * ms, ""}, {"kernels", 10 * ms, ""}, {"kernels", 10 * ms, ""}, {"kernels", 15 * ms, "compute"}, {"kernels", 14 * ms, "foreign"},
		{"device", 9 * ms, ""},
	} {
		r := rows[i]
		require.Equal(t, []any{"a", int64(2), int64(100 + i), int64(20 * i), int64(1), int64(10 + i), want.measure, want.ns, want.slowed},
			[]any{r["request"], r.int("rank"), r.int("seq"), r.ns("at_ms") / ms, r.int("tokens"), r.int("cached"), r["measure"], r.ns("ms"), r["slowed_by"]}, i)
		require.Equal(t, int64(1+(i+1)%2), r.int("batch"))
	}
	require.Equal(t, []any{"interval", nil, ""}, []any{rows[6]["measure"], rows[6]["ms"], rows[6]["slowed_by"]}, "nothing follows it")
	d.query("set variable request = 'b'")
	require.Len(t, d.file("request.sql"), 4)
	d.query("set variable request = '0af7651916cd43dd8448eb211c80319c'")
	require.Len(t, d.file("request.sql"), 7)
}
