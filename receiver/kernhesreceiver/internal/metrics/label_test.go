package metrics

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// TestLabelsAreShort: no label has more than 128 bytes, whatever the engine says, and two runs of long names stay apart.
func TestLabelsAreShort(t *testing.T) {
	one := func(end string) map[string]any {
		r := full()
		long := strings.Repeat("é", 2000) + end
		for key := range r.Info {
			r.Info[key] = long
		}
		m := pmetric.NewMetrics()
		appendRank(m, r, false, "", long, "1.2.3", time.Unix(9, 0))
		for name, v := range m.ResourceMetrics().At(0).Resource().Attributes().All() {
			assert.LessOrEqual(t, len(v.AsString()), MaxLabel, name)
			assert.True(t, utf8.ValidString(v.AsString()), name)
		}
		return m.ResourceMetrics().At(0).Resource().Attributes().AsRaw()
	}
	a, b := one("a"), one("b")
	require.NotEqual(t, a["kern.run"], b["kern.run"])
	require.Equal(t, a, one("a"))
	assert.Equal(t, strings.Repeat("x", MaxLabel), label(strings.Repeat("x", MaxLabel)))
}
