package archive

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// journalOf are the bytes of a journal with row groups and three chunks.
func journalOf(t testing.TB) (b []byte, bodies [][]byte) {
	t.Helper()
	d := NewDirectory(t.TempDir())
	j, err := newJournal(d, "a.journal", []parquet.Group{{Table: parquet.Kernels, Rows: 7, Meta: []byte("meta")}, {Table: parquet.Copies}})
	require.NoError(t, err)
	for seq := range int64(3) {
		bodies = append(bodies, chunkOf(seq+1).Body)
	}
	require.NoError(t, j.append(bodies[:1]))
	require.NoError(t, j.append(bodies[1:]))
	require.NoError(t, j.file.Close())
	b, err = os.ReadFile(filepath.Join(d.path, "a.journal"))
	require.NoError(t, err)
	require.EqualValues(t, len(b), j.end)
	return b, bodies
}

// read reads a journal's bytes.
func read(b []byte, limit int64) (groups int, chunks [][]byte, end int64, err error) {
	end, err = readJournal(bytes.NewReader(b), limit, reading{
		group: func(parquet.Group) error { groups++; return nil },
		chunk: func(body []byte) error { chunks = append(chunks, bytes.Clone(body)); return nil },
	})
	return groups, chunks, end, err
}

// TestJournalsAreReadUpToTheLastWholeRecord cuts a journal at many places, all of its beginning among them, and puts zeros behind.
func TestJournalsAreReadUpToTheLastWholeRecord(t *testing.T) {
	b, bodies := journalOf(t)
	groups, chunks, end, err := read(b, all)
	require.NoError(t, err)
	require.Equal(t, 2, groups)
	require.Equal(t, bodies, chunks)
	require.EqualValues(t, len(b), end)

	_, chunks, end, err = read(append(bytes.Clone(b), make([]byte, 4096)...), all)
	require.NoError(t, err)
	require.Equal(t, bodies, chunks)
	require.EqualValues(t, len(b), end)

	check := func(what string, at int, b []byte, limit int64) {
		_, chunks, end, err := read(b, limit)
		if err != nil {
			require.ErrorIs(t, err, errJournal, "%s %d", what, at)
			require.Empty(t, chunks)
			return
		}
		require.LessOrEqual(t, end, int64(len(b)))
		require.Less(t, len(chunks), len(bodies), "%s %d", what, at)
		require.Equal(t, bodies[:len(chunks)], append([][]byte{}, chunks...), "%s %d", what, at)
	}
	for i := 0; i < len(b); i += 1 + i/300 {
		check("cut at", i, b[:i], all)
		check("limit", i, b, int64(i))
	}
}

// TestAFlippedBitCostsItsRecordOnly: chunks behind it are whole, and are read.
func TestAFlippedBitCostsItsRecordOnly(t *testing.T) {
	b, bodies := journalOf(t)
	ends := []int64{int64(len(b))} // of records, from the last chunk on
	for i := len(bodies) - 1; i >= 0; i-- {
		ends = append(ends, ends[len(ends)-1]-recordHead-int64(len(bodies[i])))
	}
	slices.Reverse(ends)
	for i := 0; i < len(b); i += 1 + i/300 {
		changed := bytes.Clone(b)
		changed[i] ^= 0x20
		want, skipped := [][]byte{}, int64(0)
		for k, body := range bodies {
			if int64(i) < ends[k] || int64(i) >= ends[k+1] {
				want = append(want, body)
			}
		}
		var got [][]byte
		_, err := readJournal(bytes.NewReader(changed), all, reading{
			group: func(parquet.Group) error { return nil },
			chunk: func(body []byte) error { got = append(got, bytes.Clone(body)); return nil },
			skip:  func(bytes int64) { skipped += bytes },
		})
		if err != nil {
			require.ErrorIs(t, err, errJournal, "flip at %d", i)
			require.Less(t, int64(i), ends[0], "the head, or a group that cannot be read")
			continue
		}
		require.Equal(t, want, append([][]byte{}, got...), "flip at %d", i)
		require.Equal(t, int64(i) < ends[len(ends)-2], skipped > 0, "flip at %d: %d skipped", i, skipped)
	}
}

func FuzzJournal(f *testing.F) {
	b, _ := journalOf(f)
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		_, chunks, end, err := read(b, all)
		if err == nil && end > int64(len(b)) {
			t.Errorf("read %d of %d bytes", end, len(b))
		}
		for _, body := range chunks {
			_, _ = chunk.Unpack(body)
		}
	})
}
