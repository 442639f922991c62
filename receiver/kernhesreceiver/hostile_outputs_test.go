package kernhesreceiver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/parquet"
)

// vilePages reads all that the control endpoint shows while an engine of vile texts runs.
func (b *bench) vilePages(check func(where, text string)) {
	b.t.Helper()
	b.r.watch.History.At(time.Now())
	var texts func(where string, v any)
	texts = func(where string, v any) {
		switch v := v.(type) {
		case string:
			check(where, v)
		case []any:
			for _, one := range v {
				texts(where, one)
			}
		case map[string]any:
			for key, one := range v {
				check(where, key)
				texts(where+" "+key, one)
			}
		}
	}
	for _, path := range []string{"/status", "/live"} {
		status, body := b.ask(http.MethodGet, path)
		require.Equal(b.t, http.StatusOK, status)
		texts(path, body)
	}
	for _, run := range vile {
		for _, path := range []string{"/?", "/rank?rank=0&", "/step?seq=1&", "/step.pftrace?seq=1&"} {
			path += url.Values{"run": {run}}.Encode()
			_, page, header := b.get(http.MethodGet, path, http.Header{"Accept": {"text/html"}})
			assert.Equal(b.t, "nosniff", header.Get("X-Content-Type-Options"), path)
			if strings.HasPrefix(header.Get("Content-Type"), "text/html") {
				assert.NotContains(b.t, string(page), "<script>alert", path)
				assert.Contains(b.t, header.Get("Content-Security-Policy"), "default-src 'none'", path)
			}
		}
	}
}

// vileFooter writes a chunk as the archive does, and reads what the footers of its files say.
func vileFooter(t *testing.T, c *chunk.Chunk, check func(where, text string)) {
	t.Helper()
	for _, table := range parquet.Tables {
		var file bytes.Buffer
		w, err := parquet.NewWriter(&file, table, parquet.Options{})
		require.NoError(t, err)
		require.NoError(t, w.WriteChunk(c))
		require.NoError(t, w.Close(nil))
		f, err := parquetgo.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
		require.NoError(t, err)
		for _, kv := range f.Metadata().KeyValueMetadata {
			check("footer", kv.Value)
			if kv.Key != parquet.KeyTable {
				var v any
				require.NoError(t, json.Unmarshal([]byte(kv.Value), &v), fmt.Sprint(kv.Key, " ", kv.Value))
			}
		}
	}
}
