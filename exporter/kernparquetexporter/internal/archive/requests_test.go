package archive

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
)

// withRequests is the chunk of an untraced step with two requests.
func withRequests(t *testing.T, seq int64) (c Chunk) {
	t.Helper()
	p := chunk.NewPacker(chunk.Identity{Run: "run", Host: "host", Mode: "off"}, func(s *chunk.Sealed) {
		unpacked, err := chunk.Unpack(s.Body)
		require.NoError(t, err)
		c = Chunk{slices.Clone(s.Body), unpacked}
	})
	require.NoError(t, p.Add(&chunk.Step{Seq: seq, Untraced: true, Start: uint64(seq), Requests: []chunk.Request{{ID: "a", Tokens: 1}, {ID: "b", Tokens: 2}}}))
	p.Cut()
	return c
}

// TestRequestsHaveAFileWhereThereAreSome, also after a crash; a part without one has three files, and leaves nothing.
func TestRequestsHaveAFileWhereThereAreSome(t *testing.T) {
	d := NewDirectory(t.TempDir())
	a := openArchive(t, options(d))
	addAll(t, a, noon, 1)
	files, err := a.Flush(t.Context())
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.NoError(t, a.Add([]Chunk{withRequests(t, 2), withRequests(t, 3)}, noon))
	files, err = a.Flush(t.Context())
	require.NoError(t, err)
	require.Len(t, files, 4)
	require.EqualValues(t, 4, files[3].Rows)
	require.True(t, strings.HasPrefix(files[3].Name, "r-"))
	require.EqualValues(t, 4, a.Counts().Rows.Requests)
	require.NoError(t, a.Close(t.Context()))
	all := names(t, d)
	require.Len(t, all, 7)
	entries, err := d.List()
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name, ".open")
	}
}
