package perfetto

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// fields are the values of a message by field number: uint64 or []byte.
type fields map[protowire.Number][]any

// parse reads a message with protobuf's own reader.
func parse(t *testing.T, b []byte) fields {
	t.Helper()
	f := fields{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		require.NoError(t, protowire.ParseError(n))
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			require.NoError(t, protowire.ParseError(n))
			f[number], b = append(f[number], v), b[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			require.NoError(t, protowire.ParseError(n))
			f[number], b = append(f[number], v), b[n:]
		default:
			require.Failf(t, "wire type", "%d", kind)
		}
	}
	return f
}

func (f fields) uint(n protowire.Number) uint64 {
	if len(f[n]) == 0 {
		return 0
	}
	return f[n][0].(uint64)
}

func (f fields) text(n protowire.Number) string {
	if len(f[n]) == 0 {
		return ""
	}
	return string(f[n][0].([]byte))
}

func (f fields) each(t *testing.T, n protowire.Number, do func(fields)) {
	for _, v := range f[n] {
		do(parse(t, v.([]byte)))
	}
}

// A readSlice is a slice as a viewer shows it.
type readSlice struct {
	process, track       string
	start, end           uint64
	name, category, args string
	colour               uint64
}

// read reads a trace as Perfetto's importer does: one sequence, texts before they are used, slices that nest on a track.
// The numbers here are those of the published protos, written out again.
func read(t *testing.T, trace []byte) (all []readSlice) {
	t.Helper()
	type track struct {
		parent        uint64
		name, process string
	}
	tracks := map[uint64]track{}
	texts := map[protowire.Number]map[uint64]string{1: {}, 2: {}, 3: {}}
	open := map[uint64]*readSlice{}
	cleared := false
	clocks := map[uint64]uint64{}
	parse(t, trace).each(t, 1, func(p fields) {
		require.EqualValues(t, 1, p.uint(10), "trusted_packet_sequence_id")
		p.each(t, 6, func(s fields) {
			s.each(t, 1, func(c fields) { clocks[c.uint(1)] = c.uint(2) })
		})
		p.each(t, 60, func(d fields) {
			tr := track{parent: d.uint(5), name: d.text(2)}
			d.each(t, 3, func(process fields) {
				assert.Positive(t, process.uint(1))
				tr.process = process.text(6)
			})
			require.NotContains(t, tracks, d.uint(1))
			tracks[d.uint(1)] = tr
		})
		p.each(t, 12, func(i fields) {
			for n := range texts {
				i.each(t, n, func(e fields) {
					require.NotZero(t, e.uint(1))
					require.NotContains(t, texts[n], e.uint(1))
					texts[n][e.uint(1)] = e.text(2)
				})
			}
		})
		cleared = cleared || p.uint(13)&1 != 0
		p.each(t, 11, func(e fields) {
			require.True(t, cleared && p.uint(13) == 2, "an event that needs texts, before they are there")
			id := e.uint(11)
			tr, ok := tracks[id]
			require.True(t, ok, "track")
			switch e.uint(9) {
			case 1:
				require.Nil(t, open[id], "slices overlap on a track")
				s := &readSlice{
					process: tracks[tr.parent].process, track: tr.name, start: p.uint(8), colour: e.uint(52),
					name: texts[2][e.uint(10)], category: texts[1][e.uint(3)],
				}
				e.each(t, 4, func(a fields) { s.args += texts[3][a.uint(1)] + "=" + a.text(6) + ";" })
				open[id] = s
			case 2:
				require.NotNil(t, open[id], "an end without a begin")
				open[id].end = p.uint(8)
				all = append(all, *open[id])
				open[id] = nil
			default:
				require.Fail(t, "type of event")
			}
		})
	})
	for _, s := range open {
		require.Nil(t, s, "a slice without an end")
	}
	if len(all) > 0 {
		assert.Equal(t, clocks[1], clocks[6], "the trace's clock is real time")
		assert.NotZero(t, clocks[1])
	}
	return all
}

func written(t *testing.T, s *Step) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, s))
	return b.Bytes()
}

func TestTraceIsReadBack(t *testing.T) {
	step := &Step{Run: "r", Seq: 7, Ranks: []Rank{
		{Rank: 1, Program: "decode", Start: 105, End: 120, Foreign: 4, Kernels: []Kernel{{Start: 105, End: 120, Stream: 9, Name: "k", Class: "comm", Fused: true}}},
		{Rank: 0, Host: "n1", GPU: "GPU-0", Program: "decode", Vars: "seqs=1", Start: 100, End: 160, Kernels: []Kernel{
			{Start: 100, End: 110, Stream: 7, Name: "gemm", Call: "layers.0", Op: "mlp", Class: "compute", Grid: [3]uint64{1, 2, 3}, Block: [3]uint64{4, 5, 6}},
			{Start: 105, End: 120, Stream: 7, Name: "gemm", Call: "layers.0", Class: "compute"}, // overlaps
			{Start: 120, End: 130, Stream: 8, Name: "nccl", Call: "layers.0.reduce", Class: "comm"},
			{Start: 140, End: 140, Stream: 7, Name: "zero", Class: "compute"},
			{Start: 140, End: 160, Stream: 7, Name: "again", Call: "layers.0", Class: "compute"},
		}},
	}}
	assert.Equal(t, []readSlice{
		{"rank 0", "step", 100, 160, "decode", "step", "run=r;seq=7;vars=seqs=1;kernels=5;", 0},
		{"rank 0", "calls", 100, 120, "layers.0", "call", "op=mlp;", 0},
		{"rank 0", "calls", 120, 130, "layers.0.reduce", "call", "", 0},
		{"rank 0", "calls", 140, 160, "layers.0", "call", "", 0},
		{"rank 0", "stream 7", 100, 110, "gemm", "compute", "call=layers.0;op=mlp;grid=1,2,3;block=4,5,6;", 1},
		{"rank 0", "stream 7", 105, 120, "gemm", "compute", "call=layers.0;grid=0,0,0;block=0,0,0;", 1},
		{"rank 0", "stream 7", 140, 140, "zero", "compute", "grid=0,0,0;block=0,0,0;", 1},
		{"rank 0", "stream 7", 140, 160, "again", "compute", "call=layers.0;grid=0,0,0;block=0,0,0;", 1},
		{"rank 0", "stream 8", 120, 130, "nccl", "comm", "call=layers.0.reduce;grid=0,0,0;block=0,0,0;", 2},
		{"rank 1", "step", 105, 120, "decode", "step", "run=r;seq=7;kernels=1;foreign_compute_ns=4;", 0},
		{"rank 1", "stream 9", 105, 120, "k", "comm", "grid=0,0,0;block=0,0,0;fused=true;", 2},
	}, read(t, written(t, step)))
	assert.Empty(t, read(t, written(t, &Step{})))
}

func TestNamesAreInternedAndBounded(t *testing.T) {
	rank := Rank{Program: strings.Repeat("é", 1<<20), Start: 1, End: 3001, Vars: "\xff"}
	for i := range uint64(3000) {
		rank.Kernels = append(rank.Kernels, Kernel{
			Start: 1 + i, End: 2 + i, Name: strings.Repeat("x", 1<<16), Call: fmt.Sprintf("\xfe%d", i%2), Class: "compute",
		})
	}
	b := written(t, &Step{Ranks: []Rank{rank}})
	assert.Less(t, len(b), 3000*200)
	all := read(t, b)
	assert.Len(t, all, 1+3000+3000)
	for _, s := range all {
		assert.LessOrEqual(t, len(s.name), maxText)
		assert.True(t, utf8.ValidString(s.name) && utf8.ValidString(s.args))
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for _, s := range all {
			if s.track == "calls" && !yield(s.name) {
				return
			}
		}
	})
	assert.Equal(t, []string{"0", "1"}, slices.Compact(names))
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteSaysThatItFailed(t *testing.T) {
	require.ErrorIs(t, Write(brokenWriter{}, &Step{Ranks: []Rank{{Program: "p"}}}), errBroken)
}
