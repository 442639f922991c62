package archive

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/parquet"
)

// slow is a Directory whose tables are written in pieces, a millisecond apart, so that a kill finds row groups half
// written: half of the time goes there, the other half into syncs of the journal.
type slow struct{ *Directory }

func (d slow) Create(name string) (File, error) {
	f, err := d.Directory.Create(name)
	return slowFile{f, name}, err
}

func (d slow) Open(name string) (File, error) {
	f, err := d.Directory.Open(name)
	return slowFile{f, name}, err
}

func (d slow) Holds(name string, f File) bool { return d.Directory.Holds(name, f.(slowFile).File) }

type slowFile struct {
	File
	name string
}

func (f slowFile) WriteAt(b []byte, at int64) (n int, err error) {
	if !strings.HasSuffix(f.name, ".parquet.open") {
		return f.File.WriteAt(b, at)
	}
	for n < len(b) && err == nil {
		var k int
		k, err = f.File.WriteAt(b[n:min(n+64, len(b))], at+int64(n))
		n += k
		time.Sleep(time.Millisecond)
	}
	return n, err
}

// load is a process that takes chunks, says which, and where row groups end, until it is killed.
func load(directory string) error {
	o := options(slow{NewDirectory(directory)})
	o.JournalBytes = 20_000
	o.Tables.Wrote = func(g parquet.Group) error {
		_, err := fmt.Println("group", g.Table, g.Offset+g.Length)
		return err
	}
	a, err := Open(o)
	if err != nil {
		return err
	}
	first, err := strconv.ParseInt(os.Getenv("KERNPARQUET_FIRST"), 10, 64)
	if err != nil {
		return err
	}
	for seq := first; ; seq++ {
		// 100 chunks a roll: rolls end too. Where it goes on, the clock does.
		if err := a.Add([]Chunk{chunkOf(seq)}, noon.Add(time.Duration(seq)*18*time.Second)); err != nil {
			return err
		}
		if _, err := fmt.Println("taken", seq); err != nil {
			return err
		}
	}
}

// child makes a command of this test's program.
func child(t *testing.T, name, directory string, env ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	c := exec.CommandContext(t.Context(), program)
	c.Env = append(os.Environ(), append(env, "KERNPARQUET_CHILD="+name, "KERNPARQUET_DIRECTORY="+directory)...)
	return c
}

// A killed process: what it had said.
type killed struct {
	taken int64 // the last chunk
	ends  map[string]int64
}

// killSoon runs the load from a chunk on, and kills it after some chunks and some time more.
func killSoon(t *testing.T, directory string, first int64, chunks int, after time.Duration) killed {
	t.Helper()
	c := child(t, "load", directory, "KERNPARQUET_FIRST="+strconv.FormatInt(first, 10))
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	require.NoError(t, c.Start())
	k := killed{first - 1, map[string]int64{}}
	kill := sync.OnceFunc(func() {
		time.Sleep(after)
		_ = c.Process.Kill()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch words := strings.Fields(lines.Text()); words[0] {
		case "taken":
			k.taken, err = strconv.ParseInt(words[1], 10, 64)
			require.NoError(t, err)
			if chunks--; chunks == 0 {
				go kill()
			}
		case "group":
			k.ends[words[1]], err = strconv.ParseInt(words[2], 10, 64)
			require.NoError(t, err)
		}
	}
	kill() // waits for it
	_ = c.Wait()
	require.Empty(t, stderr.String())
	return k
}

// half reports whether a table of an open part ends within a row group.
func (k killed) half(t *testing.T, d Disk) bool {
	entries, err := d.List()
	require.NoError(t, err)
	open := journals(entries)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, ".parquet.open") || len(open) == 0 || !strings.Contains(e.Name, open[len(open)-1].String()) {
			continue
		}
		if end := k.ends[e.Name[:1]]; e.Size > end && end > 0 {
			return true
		}
	}
	return false
}

// TestKill kills the load at 20 moments, or more until 8 row groups were half written. Each time the next process closes what
// is open, and then all chunks that were taken are in closed files, once; at most the one that was being taken is there besides.
func TestKill(t *testing.T) {
	kills, least := 20, 8
	if testing.Short() {
		kills, least = 5, 0
	}
	d := NewDirectory(t.TempDir())
	chance := rand.New(rand.NewPCG(7, 7))
	half := 0
	last := int64(0)
	for i := 0; i < 4*kills && (i < kills || half < least || i%5 != 0); i++ {
		k := killSoon(t, d.path, last+1, 1+chance.IntN(40), time.Duration(chance.IntN(20_000))*time.Microsecond)
		if k.half(t, d) {
			half++
		}
		for name, c := range contents(t, d) { // closed before the kill: whole
			require.Equal(t, len(c.kernels), len(c.steps), "%s", name)
		}
		last = k.taken
		if i%5 != 4 {
			continue // the next load is the next process
		}
		a := openArchive(t, options(d))
		_, err := a.Flush(t.Context())
		require.NoError(t, err)
		// The queue gives again what it does not know to be taken, and one that is.
		require.NoError(t, a.Add([]Chunk{chunkOf(last), chunkOf(last + 1)}, noon))
		require.NoError(t, a.Close(t.Context()))
		last++
		requireOnce(t, d, last)
		require.Equal(t, Rows{}, a.Counts().Lost)
	}
	t.Logf("%d row groups half written, %d chunks", half, last)
	require.GreaterOrEqual(t, half, least)
}
