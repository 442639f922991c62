package metrics

import (
	"fmt"
	"hash/fnv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// MaxLabel is the longest value of a label, in bytes: each series has it once a scrape. Traces and the archive have the whole text.
const MaxLabel = 128

// label bounds a text. Two that are equal up to there stay apart by their hash.
func label(s string) string {
	if len(s) <= MaxLabel {
		return s
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	end := fmt.Sprintf("…%08x", h.Sum32())
	return strings.ToValidUTF8(s[:MaxLabel-len(end)], "") + end
}

// boundLabels bounds the attributes of a resource, which exporters make labels of.
func boundLabels(of pcommon.Map) {
	for _, v := range of.All() {
		if v.Type() == pcommon.ValueTypeStr {
			v.SetStr(label(v.Str()))
		}
	}
}
