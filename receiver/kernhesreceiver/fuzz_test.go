package kernhesreceiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/sample"
)

// FuzzProcess plays any bytes as an engine's connection, as they are or mended to frames that make sense. Whatever they are, the books add up, what is acknowledged never goes
// back, what is kept is bounded, and every kernel that became part of a step or stayed outside is in a chunk that can be read.
func FuzzProcess(f *testing.F) {
	seeds, err := filepath.Glob("../../internal/wire/testdata/seeds/*")
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
		cfg := createDefaultConfig().(*Config)
		cfg.MaxStrings, cfg.MaxRanges, cfg.MaxShapes, cfg.MaxSeries, cfg.MaxSessionBytes = 16, 16, 16, 2, 16<<10
		p := newEngines(zap.NewNop(), cfg, true, nil, &rules.Files{}, identity.NewStarts())(wire.Hello{Session: 7, Info: map[string]string{"run": "r"}}).(*process)
		packed := uint64(0)
		take := func() {
			booksHold(t, p, books.OfShimKernels, books.OfShimCopies)
			for _, parcel := range p.takeParcels() {
				body, err := chunk.Body(parcel.logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0))
				require.NoError(t, err)
				c, err := chunk.Unpack(body)
				require.NoError(t, err)
				packed += uint64(c.Rows())
			}
			p.settled()
			p.loose()
		}
		feed(t, p, b, take)
		p.end(true)
		take()
		kept := uint64(0)
		for _, r := range p.reports() {
			require.Zero(t, r.pending)
			kept += r.became.InSteps + r.became.Outside
		}
		require.GreaterOrEqual(t, packed, kept, "kernels are in no chunk") // late ones are in chunks too
		require.Equal(t, p.got, p.acknowledgeable(), "an ended engine holds nothing back")
	})
}

// feed gives frames to a process until they end or one is bad; each is called after every frame.
func feed(t *testing.T, p *process, b []byte, each func()) {
	r := wire.NewReader(bytes.NewReader(b))
	for acknowledged := uint64(0); ; {
		frame, err := r.Next()
		if err == nil {
			err = p.frame(frame)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, wire.ErrBadFrame) {
			return
		}
		require.NoError(t, err, "an error of no known kind")
		each()
		require.GreaterOrEqual(t, p.acknowledgeable(), acknowledged)
		acknowledged = p.acknowledgeable()
		require.LessOrEqual(t, p.bytes(), p.set.maxBytes*5/4+32*len(frame.Body))
		require.LessOrEqual(t, len(p.devices), maxDevices)
	}
}

// FuzzControl asks the control endpoint anything: it answers with a status that fits, and JSON where it says so.
func FuzzControl(f *testing.F) {
	for _, seed := range []struct{ method, path, query, accept, body string }{
		{"GET", "/", "", "", ""}, {"GET", "/status", "", "text/html", ""}, {"GET", "/status", "format=json", "", ""},
		{"POST", "/trace", "steps=2&rank=1&wait=1ms", "", ""}, {"POST", "/trace", "seq=7&seq=8", "", "{}"},
		{"POST", "/trace", "steps=-1&wait=999h", "", ""}, {"DELETE", "/status/../trace", "%zz", "*/*", "x"},
	} {
		f.Add(seed.method, seed.path, seed.query, seed.accept, seed.body)
	}
	now := time.Unix(1_800_000_000, 0)
	c := newControl(zap.NewNop(), func(_ context.Context, a sample.Ask) (sample.Got, error) {
		if a.Steps < 1 || a.Steps > sample.MaxSteps {
			return sample.Got{}, errors.New("asked for too much")
		}
		return sample.Got{Taken: []sample.Taken{{Seq: 7, Rank: 1}}}, nil
	})
	c.handle("GET /status", "", serveStatus(func() status { return statusStory(now) }))
	f.Fuzz(func(t *testing.T, method, path, query, accept, body string) {
		target := &url.URL{Path: "/" + strings.TrimPrefix(path, "/"), RawQuery: query}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+target.RequestURI(), strings.NewReader(body))
		if err != nil {
			return // no client can send it
		}
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		c.mux.ServeHTTP(w, r)
		require.Contains(t, []int{200, 301, 307, 400, 404, 405}, w.Code)
		switch kind := w.Header().Get("Content-Type"); {
		case strings.HasPrefix(kind, "application/json"):
			require.True(t, json.Valid(w.Body.Bytes()))
		case strings.HasPrefix(kind, "text/html"):
			require.NotContains(t, w.Body.String(), "<script>")
			require.NotContains(t, w.Body.String(), "<b>mystery")
		}
	})
}
