package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// TestMain runs what a test has asked of a process of its own, or the tests.
func TestMain(m *testing.M) {
	if child := children[os.Getenv("KERNPARQUET_CHILD")]; child != nil {
		if err := child(os.Getenv("KERNPARQUET_DIRECTORY")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// children are what a process of its own does in a directory.
var children = map[string]func(directory string) error{"load": load, "full": fullDisk, "read-only": readOnlyDisk}

// noon is when most tests begin.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

const (
	kernelsEach = 40 // of a chunk's step
	testRanks   = 2
)

// chunkOf makes the chunk of one step, seq, of rank seq modulo testRanks.
func chunkOf(seq int64) Chunk {
	s := chunk.Step{Seq: seq, Pairs: true, Text: "step", Program: "decode", Complete: true,
		Shape: &chunk.Shape{Hash: 1}, Start: uint64(seq) * 1e9, End: uint64(seq)*1e9 + kernelsEach*1000}
	for i := range uint64(kernelsEach) {
		s.Shape.Positions = append(s.Shape.Positions, chunk.Position{Name: "k", Call: fmt.Sprint("call", i), Launch: uint32(i)})
		s.Launches = append(s.Launches, chunk.Launch{Correlation: uint32(i)})
		s.Starts = append(s.Starts, s.Start+i*1000)
		s.Durs = append(s.Durs, 900)
	}
	var c Chunk
	p := chunk.NewPacker(chunk.Identity{Run: "run", Rank: seq % testRanks, Host: "host", Mode: "hes"}, func(s *chunk.Sealed) {
		unpacked, err := chunk.Unpack(s.Body)
		if err != nil {
			panic(err)
		}
		c = Chunk{slices.Clone(s.Body), unpacked}
	})
	if err := p.Add(&s); err != nil {
		panic(err)
	}
	p.AddCopies([]chunk.Copy{{Start: s.Start, Dur: 5, Bytes: 7, InStep: true, Seq: seq}})
	p.Cut()
	return c
}

// options are those of most tests: small row groups, and no compression, whose buffers would take most of the time.
func options(d Disk) Options {
	return Options{Disk: d, Host: "host", Roll: 30 * time.Minute, Tables: parquet.Options{RowGroupRows: 100, Compression: "none"}, Logger: zap.NewNop()}
}

func openArchive(t testing.TB, o Options) *Archive {
	t.Helper()
	a, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.Close(t.Context()) })
	return a
}

func addAll(t testing.TB, a *Archive, now time.Time, seqs ...int64) {
	t.Helper()
	for _, seq := range seqs {
		err := a.Add([]Chunk{chunkOf(seq)}, now)
		for errors.Is(err, ErrBehind) { // hours pass here within milliseconds
			_, tried := a.closer.hurry()
			require.NoError(t, wait(t.Context(), tried))
			err = a.Add([]Chunk{chunkOf(seq)}, now)
		}
		require.NoError(t, err)
	}
}

// A content is what the closed files of one part hold.
type content struct {
	kernels map[int64][]int64 // starts by seq
	steps   map[int64]int     // rows by seq
	copies  map[int64]int
}

// contents reads all closed files.
func contents(t testing.TB, d Disk) map[Name]*content {
	t.Helper()
	entries, err := d.List()
	require.NoError(t, err)
	parts := map[Name]*content{}
	for _, e := range entries {
		name, ok := parse(tablePattern, e.Name)
		if !ok {
			continue
		}
		c := parts[name]
		if c == nil {
			c = &content{map[int64][]int64{}, map[int64]int{}, map[int64]int{}}
			parts[name] = c
		}
		f, err := d.Open(e.Name)
		require.NoError(t, err)
		b := make([]byte, e.Size)
		_, err = f.ReadAt(b, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		seqs, starts := columns(t, e.Name, b)
		for i, seq := range seqs {
			switch parquet.Table(e.Name[:1]) {
			case parquet.Kernels:
				c.kernels[seq] = append(c.kernels[seq], starts[i])
			case parquet.Steps:
				c.steps[seq]++
			case parquet.Copies:
				c.copies[seq]++
			}
		}
	}
	return parts
}

// columns reads seq and start_ns, and holds that a row group has one rank.
func columns(t testing.TB, name string, b []byte) (seqs, starts []int64) {
	t.Helper()
	f, err := parquetgo.OpenFile(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err, name)
	for _, rg := range f.RowGroups() {
		ranks := map[int64]bool{}
		for i, column := range f.Schema().Columns() {
			var to *[]int64
			var values []int64
			switch column[0] {
			case "seq":
				to = &seqs
			case "start_ns":
				to = &starts
			case "rank":
				to = &values
			default:
				continue
			}
			pages := rg.ColumnChunks()[i].Pages()
			for {
				p, err := pages.ReadPage()
				if err == io.EOF {
					break
				}
				require.NoError(t, err, name)
				page := make([]parquetgo.Value, p.NumValues())
				_, err = p.Values().ReadValues(page)
				if err != io.EOF {
					require.NoError(t, err, name)
				}
				for _, v := range page {
					*to = append(*to, v.Int64())
				}
			}
			require.NoError(t, pages.Close())
			for _, v := range values {
				ranks[v] = true
			}
		}
		require.Len(t, ranks, 1, name)
	}
	require.Len(t, starts, len(seqs), name)
	require.EqualValues(t, f.NumRows(), len(seqs), name)
	return seqs, starts
}

// requireOnce holds that closed files have each row of the chunks from 1 to n once and nothing else, and that a step's row
// lies in the part of its last kernel.
func requireOnce(t testing.TB, d Disk, n int64) {
	t.Helper()
	seen := map[int64]bool{}
	for name, c := range contents(t, d) {
		for seq, starts := range c.kernels {
			require.False(t, seen[seq], "step %d is in two parts", seq)
			seen[seq] = true
			require.Len(t, starts, kernelsEach, "step %d in %s", seq, name)
			for i, start := range starts {
				require.Equal(t, seq*1e9+int64(i)*1000, start)
			}
			require.Equal(t, 1, c.steps[seq], "step %d in %s", seq, name)
			require.Equal(t, 1, c.copies[seq], "step %d in %s", seq, name)
		}
		require.Equal(t, len(c.kernels), len(c.steps))
		require.Equal(t, len(c.kernels), len(c.copies))
	}
	want := map[int64]bool{}
	for seq := range n {
		want[seq+1] = true
	}
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(seen)))
}
