package kernparquetencodingextension

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"
)

// childVariable is set, to the folder, in a process that writes until it is killed.
const childVariable = "KERNPARQUET_TEST_CHILD"

// writeUntilKilled writes the logs of a file again and again, and says a line for each time.
func writeUntilKilled(dir string) {
	b, err := os.ReadFile(filepath.Join(dir, "logs"))
	if err != nil {
		panic(err)
	}
	l, err := begin(dir, nil)
	if err != nil {
		panic(err)
	}
	var u plog.ProtoUnmarshaler
	for {
		message, err := u.UnmarshalLogs(b)
		if err != nil {
			panic(err)
		}
		if err := l.exporter.ConsumeLogs(context.Background(), message); err != nil {
			panic(err)
		}
		fmt.Println("written")
	}
}

// TestKilledWritersLeaveWholeFiles kills a writer again and again: what it said it had written is there each time.
func TestKilledWritersLeaveWholeFiles(t *testing.T) {
	dir := t.TempDir()
	portions := recorded(t, "solo.rank0")[:6]
	message := logs("w", portions...)
	one := sum(portions...)
	var m plog.ProtoMarshaler
	b, err := m.MarshalLogs(message)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "logs"), b, 0o600))
	path := filepath.Join(dir, "w.k.parquet")
	random := rand.New(rand.NewPCG(1, 2))
	torn, least, kills := 0, int64(0), 10
	if testing.Short() {
		kills = 3
	}
	for range kills {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), childVariable+"="+dir)
		out, err := command.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, command.Start())
		said := bufio.NewScanner(out)
		lines := random.IntN(3)
		for range lines {
			require.True(t, said.Scan(), "the writer ended")
		}
		for range random.IntN(1 << 22) { // some moment in the next write
		}
		require.NoError(t, command.Process.Kill())
		for said.Scan() {
			lines++
		}
		require.Error(t, command.Wait())
		if before, err := os.Stat(path); err == nil {
			l := newLife(t, dir, nil)
			l.end(t)
			after, err := os.Stat(path)
			require.NoError(t, err)
			if after.Size() != before.Size() {
				torn++
			}
			g, left, err := load(path, "k")
			require.NoError(t, err)
			require.Zero(t, left.size)
			n := int64(g.messages - 1)
			require.GreaterOrEqual(t, n, least+int64(lines))
			require.LessOrEqual(t, n, least+int64(lines)+1)
			least = n
			read(t, path, found{one.rows * n, one.dur * n})
		}
	}
	require.Positive(t, least)
	t.Logf("%d messages, %d torn", least, torn)
}
