package kernhesreceiver

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
)

// TestARefusedFileIsAProblem until a good one is read.
func TestARefusedFileIsAProblem(t *testing.T) {
	for setting, one := range map[string]struct {
		of                  func(*Config) *string
		good, broken, fault string
	}{
		"class_table": {func(cfg *Config) *string { return &cfg.ClassTable }, "comm\tpath\t^nothing$\n", "broken\n", "rule in line 1: 1 columns"},
		"manifest":    {func(cfg *Config) *string { return &cfg.Manifest }, `{"kernhes_manifest": 1, "calls": [{"label": "a call", "op": "exchange", "class": "comm"}]}`, `{"kernhes_manifest": 1, "calls": [{}]}`, "calls"},
	} {
		t.Run(setting, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			writes := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
			writes(one.good)
			b := newBenchOn(t, componenttest.NewNopHost(), nil, func(cfg *Config) { *one.of(cfg) = path })
			problems := func() []string {
				b.r.pollRules()
				return b.r.status(time.Now()).Problems
			}
			require.Empty(t, problems())
			writes(one.broken)
			for range 2 { // it stays
				require.Len(t, problems(), 1)
				require.Contains(t, problems()[0], setting+" is refused, the last good one stays: "+path)
				require.Contains(t, problems()[0], one.fault)
			}
			_, page, _ := b.get(http.MethodGet, "/status?format=html", nil)
			require.Contains(t, string(page), setting+" is refused")
			require.NoError(t, os.Remove(path))
			require.Len(t, problems(), 1)
			require.Contains(t, problems()[0], setting+" is refused, the last good one stays: open "+path)
			writes(one.good)
			require.Empty(t, problems())
		})
	}
}
