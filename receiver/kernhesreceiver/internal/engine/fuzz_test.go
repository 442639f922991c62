package engine

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
)

// FuzzProcess plays any bytes as an engine's connection, as they are or mended to frames that make sense. Whatever they are, the books add up, what is acknowledged never goes
// back, what is kept is bounded, and every kernel that became part of a step or stayed outside is in a chunk that can be read.
func FuzzProcess(f *testing.F) {
	seeds, err := filepath.Glob("../../../../internal/wire/testdata/seeds/*")
	require.NoError(f, err)
	require.NotEmpty(f, seeds)
	for _, path := range seeds {
		b, err := os.ReadFile(path)
		require.NoError(f, err)
		f.Add(false, b)
		f.Add(true, b)
	}
	for _, story := range krec.Stories() {
		if b := bytes.Join(fakeshim.Frames(story.Recording, fakeshim.Options{Deliver: fakeshim.Flush}), nil); len(b) < 16<<10 {
			f.Add(true, b)
		}
	}
	f.Fuzz(func(t *testing.T, mend bool, b []byte) {
		if mend {
			b = mended(b)
		}
		cfg := testSettings(archived)
		cfg.MaxStrings, cfg.MaxRanges, cfg.MaxShapes, cfg.MaxSeries, cfg.MaxSessionBytes = 16, 16, 16, 2, 16<<10
		p := begin(cfg, wire.Hello{Session: 7, Info: map[string]string{"run": "r"}})
		packed := uint64(0)
		take := func() {
			booksHold(t, p, books.OfShimKernels, books.OfShimCopies)
			for _, one := range takeChunks(p) {
				c, err := chunk.Unpack(one.Body)
				require.NoError(t, err)
				packed += uint64(c.Rows())
			}
			p.Unattributed()
		}
		feed(t, p, b, take)
		p.End(true)
		take()
		kept := uint64(0)
		for _, r := range p.Reports() {
			require.Zero(t, r.Pending)
			kept += r.Became.InSteps + r.Became.Outside
		}
		require.GreaterOrEqual(t, packed, kept, "kernels are in no chunk") // late ones are in chunks too
		require.Equal(t, p.lastFrame, p.Acknowledgeable(), "an ended engine holds nothing back")
	})
}

// feed gives frames to a process until they end or one is bad; each is called after every frame.
func feed(t *testing.T, p *Process, b []byte, each func()) {
	r := wire.NewReader(bytes.NewReader(b))
	for acknowledged := uint64(0); ; {
		frame, err := r.Next()
		if err == nil {
			err = p.Frame(frame)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, wire.ErrBadFrame) {
			return
		}
		require.NoError(t, err, "an error of no known kind")
		each()
		require.GreaterOrEqual(t, p.Acknowledgeable(), acknowledged)
		acknowledged = p.Acknowledgeable()
		require.LessOrEqual(t, p.bytes(), p.set.maxBytes*5/4+32*len(frame.Body))
		require.LessOrEqual(t, len(p.devices), MaxDevices)
	}
}
