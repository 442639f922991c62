//go:build chain

package duckdb_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
)

// patience bounds what a test waits for; only what does not come takes so long.
const patience = 60 * time.Second

// shipped starts the built distribution with otelcol-dist/file-exporter.yaml, in a folder of its own and with short batches.
func shipped(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "otelcol-dist", "file-exporter.yaml"))
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	text := strings.NewReplacer("unix://out/kernhes.sock", "unix://"+dir+"/k.sock", "out/parquet", dir+"/parquet",
		"timeout: 30s", "timeout: 200ms", "port: 8888", fmt.Sprint("port: ", port)).Replace(string(b))
	config := filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	binary, err := filepath.Abs(filepath.Join(root, "bin", "otelcol-kernhes"))
	require.NoError(t, err)
	command := exec.Command(binary, "--config", config)
	command.Stdout, command.Stderr = log, log
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_, _ = command.Process.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(log.Name())
			t.Logf("%s", b[max(0, len(b)-4000):])
		}
	})
	eventually(t, func() bool {
		c, err := net.Dial("unix", filepath.Join(dir, "k.sock"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return command
}

func eventually(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "did not come")
	}
}

// play begins to play recordings as a run.
func play(t *testing.T, dir, run string, names ...string) *exec.Cmd {
	t.Helper()
	arguments := []string{"--quiet", "--speed", "0.25"} // 4 s, so that files grow
	for _, name := range names {
		arguments = append(arguments, filepath.Join(root, "testdata", "recordings", name+".krec.zst"))
	}
	command := exec.Command(filepath.Join(root, "bin", "kernhes-play"), arguments...)
	command.Env = append(os.Environ(), "KERNHES_RUN="+run, "KERNHES_ENDPOINT=unix://"+dir+"/k.sock")
	require.NoError(t, command.Start())
	return command
}

// rows are those of table k of a run, and the sum of their durations, as DuckDB finds them in whatever is there. It may come amid
// a write, which is not atomic: then ok is false.
func rows(t *testing.T, dir, run string) (n, dur int64, ok bool) {
	t.Helper()
	if files, err := filepath.Glob(filepath.Join(dir, "parquet", "*.parquet")); err != nil || len(files) < 3 {
		return 0, 0, true
	}
	db, err := duck.Open(duck.Archive{Dir: filepath.Join(dir, "parquet"), Run: run}, filepath.Join(root, "queries", "views.sql"))
	if err != nil {
		return 0, 0, amid(t, err)
	}
	defer db.Close()
	table, err := duck.Query(db, "select count(*) as n, coalesce(sum(dur_ns), 0)::bigint as dur from k")
	if err != nil {
		return 0, 0, amid(t, err)
	}
	r := named(table)[0]
	return r.int("n"), r.int("dur"), true
}

// amid is false, if an error is that of a file whose end is not written.
func amid(t *testing.T, err error) bool {
	t.Helper()
	require.ErrorContains(t, err, "No magic bytes found at end of file")
	return false
}

// TestFilesOfTheShippedConfiguration plays recordings through the built distribution and the stock file exporter, reads what is
// there while it grows, kills the collector between two runs, and tears a file.
func TestFilesOfTheShippedConfiguration(t *testing.T) {
	dir := t.TempDir()
	want := func(names ...string) (n, dur int64) {
		for _, name := range names {
			n += expected(t, name).Kernels
			for _, k := range record(t, name).work.Kernels {
				dur += k.End - k.Start
			}
		}
		return n, dur
	}
	collector := shipped(t, dir)
	engines := play(t, dir, "tp2", "tp2.rank0", "tp2.rank1")
	n, dur := want("tp2.rank0", "tp2.rank1")
	grown, between, last := 0, 0, int64(-1)
	eventually(t, func() bool {
		have, sum, ok := rows(t, dir, "tp2")
		if !ok {
			between++
			return false
		}
		require.GreaterOrEqual(t, have, last)
		if have > last {
			grown++
		}
		last = have
		return have == n && sum == dur
	})
	require.NoError(t, engines.Wait())
	require.GreaterOrEqual(t, grown, 2)
	t.Logf("%d kernels, read at %d sizes; %d readings came amid a write", n, grown, between)
	require.Less(t, between, 5)

	require.NoError(t, collector.Process.Kill())
	_ = collector.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "parquet", "*.parquet"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3)
	for _, file := range files { // what a kill amid a write leaves
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString("\x00\x01\x00\x00PAR1 torn")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	shipped(t, dir)
	have, sum, _ := rows(t, dir, "tp2")
	require.Equal(t, []int64{n, dur}, []int64{have, sum})
	engines = play(t, dir, "solo", "solo.rank0")
	n2, dur2 := want("solo.rank0")
	eventually(t, func() bool {
		have, sum, _ := rows(t, dir, "solo")
		return have == n2 && sum == dur2
	})
	require.NoError(t, engines.Wait())
	have, sum, _ = rows(t, dir, "tp2")
	require.Equal(t, []int64{n, dur}, []int64{have, sum})
	byArrow, byParquetGo := counted(t, dir)
	require.Equal(t, []int64{n + n2, n + n2}, []int64{byArrow, byParquetGo})
	for name, where := range map[string][2]any{"tp2.rank0": {"tp2", 0}, "tp2.rank1": {"tp2", 1}, "solo.rank0": {"solo", 0}} {
		d := open(t, duck.Archive{Dir: filepath.Join(dir, "parquet"), Run: where[0].(string)})
		steps := d.query("select * from s where rank = %d order by start_ns", where[1])
		require.Len(t, steps, len(expected(t, name).Steps))
		for i, w := range expected(t, name).Steps {
			require.Equal(t, w.text, steps[i].text("text"))
			require.Equal(t, w.numbers, []int64{steps[i].int("kernels"), steps[i].int("compute_ns"), steps[i].int("comm_ns"), steps[i].int("overlap_ns"),
				steps[i].int("end_ns") - steps[i].int("start_ns"), steps[i].int("foreign_compute_ns")}, w.text)
		}
	}
}

// counted are the rows of table k as two libraries read them, every column to its end.
func counted(t *testing.T, dir string) (byArrow, byParquetGo int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "parquet", "*.k.parquet"))
	require.NoError(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		table, err := pqarrow.ReadTable(context.Background(), bytes.NewReader(b), nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		require.NoError(t, err)
		byArrow += table.NumRows()
		table.Release()
		r := parquet.NewGenericReader[any](bytes.NewReader(b))
		some := make([]parquet.Row, 1000)
		for {
			n, err := r.ReadRows(some)
			byParquetGo += int64(n)
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
		}
		require.NoError(t, r.Close())
	}
	return byArrow, byParquetGo
}
