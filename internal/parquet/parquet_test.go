package parquet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/oracle"
	"github.com/kernhes/kernhes/internal/parquet/pages"
)

// A recorded process: its recording, what the oracle made of it, and its chunks.
type recorded struct {
	*krec.Recording
	chunktest.Rank
	chunks []*chunk.Chunk
}

// records are those that were made: the oracle is slow.
var records = map[string]recorded{}

func record(t testing.TB, name string, rank int64) recorded {
	t.Helper()
	key := fmt.Sprint(name, rank)
	if r, ok := records[key]; ok {
		return r
	}
	r, err := krec.Read(filepath.Join("../../testdata/recordings", name+".krec.zst"))
	require.NoError(t, err)
	ranks := chunktest.Ranks(r, "run", rank)
	require.Len(t, ranks, 1)
	records[key] = recorded{r, ranks[0], packed(t, ranks[0])}
	return records[key]
}

// packed are the chunks of a rank, read from what was packed.
func packed(t testing.TB, r chunktest.Rank) (chunks []*chunk.Chunk) {
	t.Helper()
	p := chunk.NewPacker(r.Identity, func(s *chunk.Sealed) {
		c, err := chunk.Unpack(s.Body)
		require.NoError(t, err)
		chunks = append(chunks, c)
	})
	p.Count([]chunk.Count{{Name: "received", Value: uint64(r.Want.Kernels)}})
	for i := range r.Steps {
		require.NoError(t, p.Add(&r.Steps[i]))
	}
	p.AddCopies(r.Copies)
	p.Cut()
	return chunks
}

// write is a file of a table with chunks.
func write(t testing.TB, table Table, o Options, chunks ...*chunk.Chunk) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, table, o)
	require.NoError(t, err)
	for _, c := range chunks {
		require.NoError(t, w.WriteChunk(c))
	}
	require.NoError(t, w.Close(nil))
	require.EqualValues(t, b.Len(), w.Size())
	return b.Bytes()
}

// A row of k, to compare.
type row struct {
	start, dur, stream, correlation, node int64
	symbol, call, class                   string
	grid, block                           [3]int64
}

func byStart(a, b row) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.dur, b.dur), cmp.Compare(a.correlation, b.correlation), cmp.Compare(a.node, b.node))
}

// recordedRows are the kernels of a recording, of its own records.
func recordedRows(r *krec.Recording) (rows []row) {
	work := oracle.Do(r, oracle.Collective)
	for _, f := range r.Frames {
		raw, ok := f.(*krec.Raw)
		if !ok {
			continue
		}
		for _, k := range raw.Records {
			if k.Kind() != krec.KindKernel {
				continue
			}
			of := work.Kernels[len(rows)]
			out := row{start: int64(k.Start()), dur: int64(k.End() - k.Start()), stream: int64(k.Stream()), correlation: int64(k.Correlation()),
				node: int64(k.Node()), symbol: of.Name, call: of.Call, class: "compute"}
			if of.Comm {
				out.class = "comm"
			}
			for i := range 3 {
				out.grid[i], out.block[i] = int64(k.Grid()[i]), int64(k.Block()[i])
			}
			rows = append(rows, out)
		}
	}
	slices.SortFunc(rows, byStart)
	return rows
}

// readRows are the rows of k.
func readRows(t testing.TB, c columnsRead) (rows []row) {
	start, dur, stream := c.ints(t, "start_ns"), c.ints(t, "dur_ns"), c.ints(t, "stream")
	correlation, node := c.ints(t, "correlation_id"), c.ints(t, "graph_node_id")
	var grid, block [3][]int64
	for i, d := range []string{"x", "y", "z"} {
		grid[i], block[i] = c.ints(t, "grid_"+d), c.ints(t, "block_"+d)
	}
	for i := range start {
		r := row{start: start[i], dur: dur[i], stream: stream[i], correlation: correlation[i], node: node[i],
			symbol: c["symbol"][i].(string), call: c["call"][i].(string), class: c["class"][i].(string)}
		for d := range 3 {
			r.grid[d], r.block[d] = grid[d][i], block[d][i]
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, byStart)
	return rows
}

// TestRecordingsAreInTheTables holds every row of k to the recording's own records, and s and c to the oracle.
func TestRecordingsAreInTheTables(t *testing.T) {
	for _, name := range []string{"solo.rank0", "tp2.rank0", "tp2.rank1"} {
		r := record(t, name, 0)
		want := recordedRows(r.Recording)
		k := write(t, Kernels, Options{RowGroupRows: 20_000}, r.chunks...)
		s := write(t, Steps, Options{}, r.chunks...)
		c := write(t, Copies, Options{}, r.chunks...)
		for reader, read := range readers {
			t.Run(name+"/"+reader, func(t *testing.T) {
				kernels := read(t, k)
				require.Len(t, kernels, len(Columns(Kernels)))
				require.Equal(t, want, readRows(t, kernels))
				held(t, kernels, read(t, s), r.Want)
				copies := read(t, c)
				require.Len(t, copies["bytes"], len(r.Copies))
				for i, one := range r.Copies {
					require.EqualValues(t, one.Bytes, copies["bytes"][i])
					require.EqualValues(t, one.Start, copies["start_ns"][i])
					require.EqualValues(t, one.Dur, copies["dur_ns"][i])
					require.Equal(t, chunk.CopyName(one.Memset, one.Kind), copies["kind"][i])
					require.Nil(t, copies["seq"][i])
				}
			})
		}
	}
}

// held holds k and s of one recording to the oracle's figures.
func held(t *testing.T, k, s columnsRead, want *oracle.Figures) {
	inSteps, comm := 0, 0
	bySeq := map[int64]int64{}
	place := map[any]int64{}
	for i, seq := range k["seq"] {
		if k["class"][i] == "comm" {
			comm++
		}
		if k["pos"][i] != place[seq] {
			require.Equal(t, place[seq], k["pos"][i], "positions ascend in each step")
		}
		if place[seq]++; seq == nil {
			if k["program"][i] != "" {
				require.Empty(t, k["program"][i])
			}
			if place[seq] == 4096 {
				place[seq] = 0 // the runs that kernels outside come in
			}
			continue
		}
		inSteps++
		bySeq[seq.(int64)] += k["dur_ns"][i].(int64)
	}
	require.Equal(t, want.InSteps, inSteps)
	require.Equal(t, want.CommKernels, comm)
	require.Len(t, s["seq"], len(want.Steps))
	var kernels int64
	for i, row := range want.Steps {
		require.Equal(t, row.Text, s["text"][i])
		require.Equal(t, row.First, s["start_ns"][i])
		require.Equal(t, row.Last, s["end_ns"][i])
		require.Equal(t, row.Compute, s["compute_ns"][i])
		require.Equal(t, row.Comm, s["comm_ns"][i])
		require.Equal(t, row.Overlap, s["overlap_ns"][i])
		require.Equal(t, row.Foreign, s["foreign_compute_ns"][i])
		require.Equal(t, row.Wall-row.Compute-row.Comm, s["idle_ns"][i])
		require.Equal(t, row.Complete, s["complete"][i])
		require.EqualValues(t, row.Kernels, s["kernels"][i])
		require.True(t, strings.HasPrefix(row.Text, "step:"+s["program"][i].(string)+" seq="))
		kernels += int64(row.Kernels)
	}
	require.EqualValues(t, inSteps, kernels)
	require.Len(t, bySeq, len(want.Steps))
}

// TestEachRowGroupHoldsOneRank writes two ranks in turns and looks at each row group's ranks and key-values.
func TestEachRowGroupHoldsOneRank(t *testing.T) {
	ranks := []recorded{record(t, "tp2.rank0", 0), record(t, "tp2.rank1", 1)}
	var chunks []*chunk.Chunk
	for i := range max(len(ranks[0].chunks), len(ranks[1].chunks)) {
		for _, r := range ranks {
			if i < len(r.chunks) {
				chunks = append(chunks, r.chunks[i])
			}
		}
	}
	b := write(t, Kernels, Options{RowGroupRows: 30_000}, chunks...)
	meta := footer(t, b)
	require.Greater(t, len(meta.RowGroups), 6)
	for _, rg := range meta.RowGroups {
		rank := rg.Columns[1].MetaData
		require.Equal(t, []string{"rank"}, []string(rank.PathInSchema))
		require.Equal(t, rank.Statistics.MinValue, rank.Statistics.MaxValue)
		require.LessOrEqual(t, rg.NumRows, int64(30_000+4096))
	}
	values := map[string]string{}
	for _, kv := range meta.KeyValueMetadata {
		values[kv.Key] = kv.Value
	}
	require.Equal(t, "1", values[KeySchemaVersion])
	require.Equal(t, "k", values[KeyTable])
	require.Equal(t, `["run"]`, values[KeyRuns])
	require.Equal(t, "[0,1]", values[KeyRanks])
	require.Equal(t, `["software"]`, values[KeyModes])
	var sources []Source
	require.NoError(t, json.Unmarshal([]byte(values[KeySources]), &sources))
	require.Len(t, sources, 2)
	for i, r := range ranks {
		require.EqualValues(t, r.Want.Kernels, sources[i].Rows)
		require.EqualValues(t, r.Want.First, sources[i].From)
		require.EqualValues(t, r.Want.Last, sources[i].To)
		require.EqualValues(t, r.Want.Kernels, sources[i].Counts["received"])
	}
	require.EqualValues(t, ranks[0].Want.Kernels+ranks[1].Want.Kernels, meta.NumRows)
}

// footer is the footer of a file.
func footer(t testing.TB, b []byte) (meta format.FileMetaData) {
	t.Helper()
	require.Equal(t, Magic, string(b[:4]))
	require.Equal(t, Magic, string(b[len(b)-4:]))
	n := int(le.Uint32(b[len(b)-8:]))
	require.NoError(t, thrift.Unmarshal(&compact, b[len(b)-8-n:len(b)-8], &meta))
	return meta
}

// TestFooterCanBeMadeLater takes what a journal would hold and finishes a file whose writer died in a row group.
func TestFooterCanBeMadeLater(t *testing.T) {
	r := record(t, "solo.rank0", 0)
	var file bytes.Buffer
	var journal [][]byte
	w, err := NewWriter(&file, Kernels, Options{RowGroupRows: 25_000, Wrote: func(g Group) error {
		require.EqualValues(t, file.Len(), g.Offset+g.Length)
		line, err := json.Marshal(g)
		journal = append(journal, line)
		return err
	}})
	require.NoError(t, err)
	for _, c := range r.chunks {
		require.NoError(t, w.WriteChunk(c))
	}
	require.NotEmpty(t, journal)
	var groups []Group
	var rows int64
	for _, line := range journal {
		var g Group
		require.NoError(t, json.Unmarshal(line, &g))
		groups = append(groups, g)
		rows += g.Rows
	}
	taken, waiting := w.Rows()
	require.Equal(t, taken, rows+waiting)
	last := groups[len(groups)-1]
	whole := append([]byte("junk"), file.Bytes()[:last.Offset+last.Length]...)
	for shift := range int64(2) {
		f, err := Footer(Kernels, groups, map[string]string{"kernhes.recovered": "true"}, 4*shift)
		require.NoError(t, err)
		b := append(bytes.Clone(whole[4-4*shift:]), f...)
		if shift == 1 {
			copy(b, Magic) // what stands before: as the stock file exporter's framing does
		}
		for reader, read := range readers {
			require.EqualValues(t, rows, len(read(t, b)["dur_ns"]), reader)
		}
	}
	_, err = Footer(Steps, groups, nil, 0)
	require.Error(t, err)
}

func TestEmptyTablesAreFiles(t *testing.T) {
	for _, table := range Tables {
		b := write(t, table, Options{})
		for reader, read := range readers {
			columns := read(t, b)
			require.Len(t, columns, len(Columns(table)), reader)
			for name, values := range columns {
				require.Empty(t, values, name)
			}
		}
	}
	_, err := NewWriter(nil, "x", Options{})
	require.Error(t, err)
	_, err = NewWriter(nil, Kernels, Options{Compression: "lz4"})
	require.Error(t, err)
}

// TestExtremeValuesComeBack writes what no sane engine would send, with each compression and pages cut in row groups.
func TestExtremeValuesComeBack(t *testing.T) {
	const n = pages.Rows/2 + 7
	s := chunk.Step{Seq: -3, Program: "", Start: 1<<64 - 1, Shape: &chunk.Shape{}, Last: true, Launches: []chunk.Launch{{Correlation: 1<<32 - 1, Graph: 1<<32 - 1}}}
	for i := range n {
		s.Shape.Positions = append(s.Shape.Positions, chunk.Position{Name: "_Z1k" + strings.Repeat("v", i%5), Fused: i%3 == 0, Class: chunk.Class(i % 4),
			Stream: 1<<32 - 1, Node: uint32(i), Grid: [3]uint32{1<<32 - 1}})
		s.Starts = append(s.Starts, uint64(i)<<46)
		s.Durs = append(s.Durs, -uint64(i))
	}
	outside := s
	outside.Outside = true
	c := &chunk.Chunk{Steps: []chunk.Step{s, outside, s}}
	for _, compression := range []string{"zstd", "snappy", "none"} {
		b := write(t, Kernels, Options{Compression: compression, RowGroupRows: 1 << 20}, c)
		require.Len(t, footer(t, b).RowGroups, 1)
		for reader, read := range readers {
			got := read(t, b)
			for i := range 3 * n {
				same := got["dur_ns"][i] == int64(s.Durs[i%n]) && got["start_ns"][i] == int64(s.Starts[i%n]) &&
					got["fused"][i] == (i%n%3 == 0) && got["stream"][i] == int64(1<<32-1) &&
					(got["seq"][i] == nil) == (i >= n && i < 2*n) && uint64(got["graph_node_id"][i].(int64)) == (1<<32-1)<<32|uint64(i%n)
				if !same {
					require.Failf(t, "another row", "%s, %s, row %d", reader, compression, i)
				}
			}
			require.Equal(t, "k", got["kernel"][0])
			require.Equal(t, "k(void, void)", got["kernel"][2])
			require.Equal(t, "_Z1kvv", got["symbol"][2])
		}
	}
}

// TestShapesOfOneHashStayApart gives two shapes one hash, as a hostile sender may.
func TestShapesOfOneHashStayApart(t *testing.T) {
	one := func(name string) *chunk.Chunk {
		return &chunk.Chunk{Steps: []chunk.Step{{Shape: &chunk.Shape{Hash: 1, Positions: []chunk.Position{{Name: name}}},
			Launches: make([]chunk.Launch, 1), Starts: []uint64{1}, Durs: []uint64{1}}}}
	}
	got := readArrow(t, write(t, Kernels, Options{}, one("a"), one("b"), one("a")))
	require.Equal(t, []any{"a", "b", "a"}, got["symbol"])
}

func TestManyRanksWaitInBoundedRows(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, Steps, Options{RowGroupRows: 100, MaxPending: 150})
	require.NoError(t, err)
	for i := range 1000 {
		c := &chunk.Chunk{Identity: chunk.Identity{Run: "run", Rank: int64(i % 7)}, Steps: []chunk.Step{{Seq: int64(i), Last: true}}}
		require.NoError(t, w.WriteChunk(c))
		_, waiting := w.Rows()
		require.LessOrEqual(t, waiting, int64(150))
	}
	require.NoError(t, w.Close(map[string]string{"a": "b"}))
	require.Len(t, readArrow(t, b.Bytes())["seq"], 1000)
}

// TestRanksOfEqualSizeMakeOneFile has two ranks with as many rows wait when a third has one too many: the first goes.
func TestRanksOfEqualSizeMakeOneFile(t *testing.T) {
	for range 20 {
		var b bytes.Buffer
		w, err := NewWriter(&b, Steps, Options{RowGroupRows: 100, MaxPending: 40})
		require.NoError(t, err)
		for _, rank := range []int64{2, 1, 3} {
			c := &chunk.Chunk{Identity: chunk.Identity{Run: "run", Rank: rank}}
			for i := range 20 - 19*(rank/3) {
				c.Steps = append(c.Steps, chunk.Step{Seq: i, Last: true})
			}
			require.NoError(t, w.WriteChunk(c))
		}
		require.Len(t, w.Groups(), 1)
		require.Len(t, w.Groups()[0].Sources, 1)
		require.EqualValues(t, 1, w.Groups()[0].Sources[0].Rank)
	}
}

// failing fails at a write.
type failing struct{ left int }

func (f *failing) Write(b []byte) (int, error) {
	if f.left--; f.left < 0 {
		return len(b) / 2, errors.New("no space left")
	}
	return len(b), nil
}

func TestErrorsStay(t *testing.T) {
	r := record(t, "solo.rank0", 0)
	w, err := NewWriter(&failing{1}, Kernels, Options{RowGroupRows: 10_000})
	require.NoError(t, err)
	for _, c := range r.chunks {
		err = w.WriteChunk(c)
	}
	require.ErrorContains(t, err, "no space left")
	require.ErrorContains(t, w.Close(nil), "no space left")
	require.Len(t, w.Groups(), 1)
}
