package chunk_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/krec"
)

var recordingNames = []string{"solo.rank0", "tp2.rank0", "tp2.rank1"}

func recorded(t testing.TB, name string) chunktest.Rank {
	t.Helper()
	r, err := krec.Read(filepath.Join("../../testdata/recordings", name+".krec.zst"))
	require.NoError(t, err)
	ranks := chunktest.Ranks(r, "run", 0)
	require.Len(t, ranks, 1)
	return ranks[0]
}

// pack packs steps and copies and reads all that comes out.
func pack(t testing.TB, id chunk.Identity, steps []chunk.Step, copies []chunk.Copy) ([]*chunk.Chunk, []chunk.Sealed) {
	t.Helper()
	var chunks []*chunk.Chunk
	var sealed []chunk.Sealed
	p := chunk.NewPacker(id, func(s *chunk.Sealed) {
		require.LessOrEqual(t, len(s.Body), chunk.MaxBytes)
		c, err := chunk.Unpack(s.Body)
		require.NoError(t, err)
		require.Equal(t, s.Kernels, c.Rows())
		require.Len(t, c.Copies, s.Copies)
		chunks, sealed = append(chunks, c), append(sealed, *s)
	})
	for i := range steps {
		require.NoError(t, p.Add(&steps[i]))
	}
	p.AddCopies(copies)
	p.Cut()
	p.Cut() // of nothing: no chunk
	return chunks, sealed
}

// whole puts the parts of steps together again.
func whole(t testing.TB, chunks []*chunk.Chunk) (steps []chunk.Step) {
	t.Helper()
	var open *chunk.Step
	for _, c := range chunks {
		for _, s := range c.Steps {
			if open == nil {
				require.Zero(t, s.Offset)
				s.Shape = &chunk.Shape{Hash: s.Shape.Hash, Positions: s.Shape.Positions}
				open = &s
			} else {
				require.Equal(t, len(open.Starts), s.Offset)
				require.Equal(t, open.Kernels, s.Kernels)
				require.Equal(t, open.Text, s.Text)
				last := open.Shape.Positions[s.Offset-1].Launch
				if s.Shape.Positions[0].Launch == last {
					require.Equal(t, open.Launches[len(open.Launches)-1], s.Launches[0])
					s.Launches = s.Launches[1:]
				}
				open.Shape.Positions = append(open.Shape.Positions, s.Shape.Positions...)
				open.Launches = append(open.Launches, s.Launches...)
				open.Starts = append(open.Starts, s.Starts...)
				open.Durs = append(open.Durs, s.Durs...)
			}
			if s.Last {
				open.Offset, open.Last, open.Kernels = 0, false, 0
				steps, open = append(steps, *open), nil
			}
		}
	}
	require.Nil(t, open, "the last step has no end")
	return steps
}

func TestRecordingsComeBackWhole(t *testing.T) {
	for _, name := range recordingNames {
		t.Run(name, func(t *testing.T) {
			r := recorded(t, name)
			chunks, sealed := pack(t, r.Identity, r.Steps, r.Copies)
			require.Equal(t, r.Steps, whole(t, chunks))
			var copies []chunk.Copy
			kernels, ended := 0, 0
			for i, c := range chunks {
				require.Equal(t, r.Identity, c.Identity)
				copies = append(copies, c.Copies...)
				kernels, ended = kernels+sealed[i].Kernels, ended+sealed[i].Steps
				for _, s := range c.Steps {
					require.True(t, s.Outside || sealed[i].Windowed && chunk.Window(s.Seq) == sealed[i].Window)
				}
			}
			require.Equal(t, r.Copies, copies)
			require.Equal(t, r.Want.Kernels, kernels)
			require.Equal(t, len(r.Steps), ended)
		})
	}
}

// TestFirstSeenPrefillIsSplit packs the worst case: 30,000 kernels with names of 300 bytes that no two share.
func TestFirstSeenPrefillIsSplit(t *testing.T) {
	const n = 30_000
	s := chunk.Step{Seq: 70, Text: "step:prefill seq=70", Program: "prefill", Complete: true, Start: 1e18, End: 2e18, Shape: &chunk.Shape{Hash: 1}}
	for i := range n {
		s.Shape.Positions = append(s.Shape.Positions, chunk.Position{
			Call: fmt.Sprintf("prefill.layers.%d", i), Name: fmt.Sprintf("%0300d", i), Launch: uint32(i / 3), Node: uint32(i % 3),
		})
		if i%3 == 0 {
			s.Launches = append(s.Launches, chunk.Launch{Correlation: uint32(i), Graph: 7})
		}
		s.Starts = append(s.Starts, s.Start+uint64(i)*1000)
		s.Durs = append(s.Durs, 999)
	}
	before := chunk.Step{Seq: 69, Text: "step:decode seq=69", Start: 1e18, End: 1e18}
	chunks, sealed := pack(t, chunk.Identity{Run: "run"}, []chunk.Step{before, s}, nil)
	require.Greater(t, len(chunks), 9)
	require.Len(t, chunks[0].Steps, 1, "a step that is split begins a chunk")
	require.Equal(t, 1, sealed[0].Steps)
	ended := 0
	for _, s := range sealed[1:] {
		require.Equal(t, int64(1), s.Window)
		ended += s.Steps
	}
	require.Equal(t, 1, ended)
	require.Equal(t, []chunk.Step{s}, whole(t, chunks[1:]))
}

func TestChunksAreCutBetweenWindows(t *testing.T) {
	var steps []chunk.Step
	for seq := int64(60); seq < 200; seq++ {
		steps = append(steps, chunk.Step{Seq: seq, Start: uint64(seq)})
	}
	_, sealed := pack(t, chunk.Identity{}, steps, nil)
	var windows []int64
	for _, s := range sealed {
		windows = append(windows, s.Window)
	}
	require.Equal(t, []int64{0, 1, 2, 3}, windows)
}

func TestHostileTextsAreBoundedAndValid(t *testing.T) {
	long := strings.Repeat("é", chunk.MaxText)
	s := chunk.Step{
		Text: "bad \xff\xfe utf8", Program: long, Shape: &chunk.Shape{Positions: []chunk.Position{{Name: long, Call: "\xc3"}}},
		Launches: make([]chunk.Launch, 1), Starts: []uint64{1}, Durs: []uint64{1},
	}
	chunks, _ := pack(t, chunk.Identity{Run: "a\xffb", Host: long}, []chunk.Step{s}, nil)
	got := chunks[0].Steps[0]
	require.Equal(t, "bad ? utf8", got.Text)
	require.Equal(t, "a?b", chunks[0].Run)
	for _, text := range []string{got.Program, got.Shape.Positions[0].Name, chunks[0].Host} {
		require.True(t, utf8.ValidString(text))
		require.True(t, strings.HasPrefix(long, text))
		require.Greater(t, len(text), chunk.MaxText-8)
		require.LessOrEqual(t, len(text), chunk.MaxText)
	}
}

func TestAnyNumbersComeBack(t *testing.T) {
	const most = 1<<64 - 1
	s := chunk.Step{
		Seq: -1 << 63, Seqs: 1<<63 - 1, Start: most, End: 0, Compute: most, Outside: false,
		Shape: &chunk.Shape{Hash: most, Positions: []chunk.Position{
			{Class: chunk.Spin, Fused: true, Stream: 1<<32 - 1, Grid: [3]uint32{1<<32 - 1, 0, 1}, Node: 1<<32 - 1},
			{Launch: 1<<32 - 1},
		}},
		Launches: []chunk.Launch{{Correlation: 1<<32 - 1, Graph: 1<<32 - 1}, {Graph: 1 << 31}}, Starts: []uint64{0, most}, Durs: []uint64{most, 1 << 63},
	}
	copies := []chunk.Copy{{Start: most, Dur: most, Bytes: most, Node: most, Correlation: 1<<32 - 1, Stream: 1<<32 - 1, Kind: 255, InStep: true, Seq: -5}, {Memset: true}}
	chunks, _ := pack(t, chunk.Identity{Rank: -1, Session: most, Device: 1<<16 - 1}, []chunk.Step{s}, copies)
	require.Equal(t, []chunk.Step{s}, whole(t, chunks))
	require.Equal(t, copies, chunks[0].Copies)
}

// TestSmallestPositionsComeBack packs positions that take a byte a column, which is the least.
func TestSmallestPositionsComeBack(t *testing.T) {
	const n = 40
	s := chunk.Step{Shape: &chunk.Shape{Positions: make([]chunk.Position, n)}, Launches: make([]chunk.Launch, 1),
		Starts: make([]uint64, n), Durs: make([]uint64, n)}
	chunks, _ := pack(t, chunk.Identity{}, []chunk.Step{s}, nil)
	require.Equal(t, []chunk.Step{s}, whole(t, chunks))
}

func TestCountsAndIdentityFollowTheRank(t *testing.T) {
	var chunks []*chunk.Chunk
	p := chunk.NewPacker(chunk.Identity{Run: "a"}, func(s *chunk.Sealed) {
		c, err := chunk.Unpack(s.Body)
		require.NoError(t, err)
		chunks = append(chunks, c)
	})
	require.NoError(t, p.Add(&chunk.Step{}))
	counts := []chunk.Count{{Name: "received", Value: 7}, {Name: "late", Value: 1}}
	p.Count(counts)
	p.Identify(chunk.Identity{Run: "a"})
	require.Empty(t, chunks, "it is the same rank")
	p.Identify(chunk.Identity{Run: "b"})
	require.Len(t, chunks, 1)
	require.Equal(t, "a", chunks[0].Run)
	require.Equal(t, counts, chunks[0].Counts)
	require.Error(t, p.Add(&chunk.Step{Starts: []uint64{1}}))
	p.Cut()
	require.Len(t, chunks, 1, "what was refused left nothing")
}

func TestOtherVersionsAreRefused(t *testing.T) {
	_, err := chunk.Unpack([]byte("something else that is as long as a header is"))
	require.ErrorIs(t, err, chunk.ErrVersion)
	body := bodies(t)[0]
	body[4]++
	_, err = chunk.Unpack(body)
	require.ErrorIs(t, err, chunk.ErrVersion)
}

// bodies are chunks of the recording solo.
func bodies(t testing.TB) (bodies [][]byte) {
	r := recorded(t, "solo.rank0")
	p := chunk.NewPacker(r.Identity, func(s *chunk.Sealed) { bodies = append(bodies, append([]byte(nil), s.Body...)) })
	p.Count([]chunk.Count{{Name: "received", Value: 1}})
	p.AddCopies(r.Copies[:20])
	for i := range r.Steps {
		require.NoError(t, p.Add(&r.Steps[i]))
	}
	p.Cut()
	return bodies
}

// TestNoCutOrFlipPanics reads chunks cut short at, and changed in, each of many places.
func TestNoCutOrFlipPanics(t *testing.T) {
	body := bodies(t)[0]
	for i := 0; i < len(body); i += 1 + i/50 {
		_, err := chunk.Unpack(body[:i])
		require.Error(t, err)
		require.True(t, errors.Is(err, chunk.ErrCorrupt) || errors.Is(err, chunk.ErrVersion))
		changed := append([]byte(nil), body...)
		changed[i] ^= 0xff
		_, _ = chunk.Unpack(changed)
	}
}

// TestAShapeThatComesAgainIsTheSame: an Unpacker gives equal shapes of two chunks as one, and those apart that differ in one
// field of one position, though they have one hash.
func TestAShapeThatComesAgainIsTheSame(t *testing.T) {
	position := chunk.Position{Call: "a.b", Op: "gemm", Name: "k", Class: chunk.Comm, Fused: true, Group: "tp:0", GroupBy: chunk.GroupNCCL, Bytes: 9,
		Stream: 7, Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, Launch: 0, Node: 5}
	body := func(p chunk.Position, text string) (b []byte) {
		first := chunk.Position{Name: "first"}
		k := chunk.NewPacker(chunk.Identity{Run: "r"}, func(s *chunk.Sealed) { b = bytes.Clone(s.Body) })
		s := chunk.Step{Text: text, Shape: &chunk.Shape{Hash: 1, Positions: []chunk.Position{first, p}}, Launches: []chunk.Launch{{}, {}}[:1+min(p.Launch, 1)],
			Starts: make([]uint64, 2), Durs: make([]uint64, 2)}
		require.NoError(t, k.Add(&s))
		k.Cut()
		return b
	}
	var u chunk.Unpacker
	shape := func(b []byte) *chunk.Shape {
		c, err := u.Unpack(b)
		require.NoError(t, err)
		return c.Shapes[0]
	}
	known := shape(body(position, "x"))
	require.Same(t, known, shape(body(position, "another text")))
	for i, change := range []func(*chunk.Position){
		func(p *chunk.Position) { p.Call = "a" }, func(p *chunk.Position) { p.Op = "" }, func(p *chunk.Position) { p.Name = "" },
		func(p *chunk.Position) { p.Class = chunk.Spin }, func(p *chunk.Position) { p.Fused = false }, func(p *chunk.Position) { p.Group = "" },
		func(p *chunk.Position) { p.GroupBy = chunk.GroupText }, func(p *chunk.Position) { p.Bytes = 8 }, func(p *chunk.Position) { p.Stream = 8 },
		func(p *chunk.Position) { p.Grid[2] = 0 }, func(p *chunk.Position) { p.Block[2] = 0 }, func(p *chunk.Position) { p.Launch = 1 },
		func(p *chunk.Position) { p.Node = 6 },
	} {
		other := position
		change(&other)
		require.Equal(t, other, shape(body(other, "x")).Positions[1], "change %d", i)
		require.Equal(t, position, shape(body(position, "x")).Positions[1], "change %d", i)
	}
}

// TestReadingAChunkAgainAllocatesBySteps: of a chunk whose shapes and texts are known, each step's columns and launches are
// made, and nothing for each kernel or position.
func TestReadingAChunkAgainAllocatesBySteps(t *testing.T) {
	for i, body := range bodies(t) {
		var u chunk.Unpacker
		c, err := u.Unpack(body)
		require.NoError(t, err)
		allocs := testing.AllocsPerRun(3, func() {
			_, err := u.Unpack(body)
			require.NoError(t, err)
		})
		require.Less(t, allocs, float64(2*len(c.Steps)+100), "chunk %d of %d steps and %d kernels", i, len(c.Steps), c.Rows())
	}
}
