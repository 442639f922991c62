package digest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/krec"
)

// recorded is the digests of a recorded rank.
func recorded(t testing.TB, rank int64, shapes *Shapes) *Record {
	t.Helper()
	r, err := krec.Read(filepath.Join("../../testdata/recordings", fmt.Sprintf("tp2.rank%d.krec.zst", rank)))
	require.NoError(t, err)
	of := chunktest.Ranks(r, "run", rank)[0]
	b := Builder{Shapes: shapes}
	rec := &Record{Identity: chunk.Identity{Run: of.Run, Host: of.Host, Model: of.Model, Rank: of.Rank, Session: of.Session, Device: of.Device}}
	for i := range of.Steps {
		of.Steps[i].Last, of.Steps[i].Kernels = true, len(of.Steps[i].Starts)
		if s := b.Add(&of.Steps[i]); s != nil {
			rec.Steps = append(rec.Steps, s)
		}
	}
	rec.Sums = b.TakeSums()
	return rec
}

// A record comes back as it was, and takes less than 3 KB a step.
func TestARecordComesBack(t *testing.T) {
	want := recorded(t, 1, NewShapes())
	body := Append(nil, want)
	t.Logf("%d bytes, %d steps: %d a step", len(body), len(want.Steps), len(body)/len(want.Steps))
	require.Less(t, len(body)/len(want.Steps), 3000)
	got, err := Decode(body, NewShapes())
	require.NoError(t, err)
	require.Equal(t, want.Identity, got.Identity)
	require.Len(t, got.Steps, len(want.Steps))
	for i, s := range want.Steps {
		require.Equal(t, s.Shape.Sites, got.Steps[i].Shape.Sites)
		require.Equal(t, s.Shape.Groups, got.Steps[i].Shape.Groups)
		require.Equal(t, s.Shape.Families, got.Steps[i].Shape.Families)
		without := *got.Steps[i]
		without.Shape = s.Shape
		require.Equal(t, *s, without)
	}
	require.Equal(t, len(want.Sums), len(got.Sums))
	for i, s := range want.Sums {
		require.Equal(t, s.NS, got.Sums[i].NS)
		require.Equal(t, s.Steps, got.Sums[i].Steps)
	}
}

// The sums of families are those of the kernels, by hand.
func TestFamiliesAddUp(t *testing.T) {
	b := Builder{Shapes: NewShapes()}
	s := packed(at{compute, 10, 30}, at{comm, 30, 40}, at{compute, 42, 47})
	for i, call := range []string{"decode.layers.10.q", "decode.layers.3.q", "head"} {
		s.Shape.Positions[i].Call = call
	}
	b.Add(s)
	b.Add(s)
	sums := b.TakeSums()
	require.Len(t, sums, 1)
	require.Equal(t, []string{"decode.layers.*.q", "head"}, sums[0].Shape.Families)
	require.Equal(t, []uint64{2 * 30, 2 * 5}, sums[0].NS)
	require.EqualValues(t, 2, sums[0].Steps)
	require.Empty(t, b.TakeSums())
}

// Decode takes any bytes without harm, and what it takes it writes again.
func FuzzDecode(f *testing.F) {
	f.Add(Append(nil, &Record{}))
	b := Builder{Shapes: NewShapes()}
	s := b.Add(packed(at{compute, 10, 30}, at{comm, 30, 40}, at{compute, 42, 47}))
	f.Add(Append(nil, &Record{Identity: chunk.Identity{Run: "r", Rank: 3}, Steps: []*Step{s}, Sums: b.TakeSums()}))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Decode(body, NewShapes())
		if err != nil {
			return
		}
		again, err := Decode(Append(nil, r), NewShapes())
		require.NoError(t, err)
		require.Equal(t, len(r.Steps), len(again.Steps))
		for i := range r.Steps {
			require.Equal(t, r.Steps[i].Calls, again.Steps[i].Calls)
		}
	})
}
