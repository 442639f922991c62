package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLabelsCostOnlyOnce: what a manifest says of a label and a kernel is worked out once a session.
func TestLabelsCostOnlyOnce(t *testing.T) {
	m := parse(t, []byte(`{"kernhes_manifest": 1, "calls": [{"pattern": "^a(\\d+)$", "kernel": "gemm", "op": "x$1"}, {"pattern": "^a", "op": "y"}]}`))
	var memory Memory
	for range 1000 {
		got, wrong := m.MatchIn(&memory, "p", []Kernel{{"a1", "gemm"}, {"a1", "topk"}, {"b", "gemm"}})
		require.Equal(t, []string{"x1", "y", ""}, []string{got[0].Op, got[1].Op, got[2].Op})
		require.Equal(t, 1, wrong)
	}
	assert.Less(t, memory.spent, uint64(1000))
	other := parse(t, []byte(`{"kernhes_manifest": 1, "calls": [{"pattern": "^a", "op": "z"}]}`))
	got, _ := other.MatchIn(&memory, "p", []Kernel{{"a1", "gemm"}})
	assert.Equal(t, "z", got[0].Op, "another manifest says something else")
}

// TestAHostileManifestCostsSoMuch: 4,096 expressions and long labels, new ones in each step. Their kernels are counted, and have no op.
func TestAHostileManifestCostsSoMuch(t *testing.T) {
	rules := make([]string, maxRules)
	for i := range rules {
		rules[i] = fmt.Sprintf(`{"pattern": "(x+x+)+y%d", "op": "o"}`, i)
	}
	m := parse(t, []byte(`{"kernhes_manifest": 1, "calls": [`+strings.Join(rules, ",")+`]}`))
	memory := Memory{spent: MaxCost - 1<<23} // all of it takes seconds
	refused := uint64(0)
	for i := range 100 {
		_, wrong := m.MatchIn(&memory, "p", []Kernel{{strings.Repeat("x", 2000) + fmt.Sprint(i), "k"}})
		require.Equal(t, 1, wrong)
		refused = memory.Refused()
	}
	assert.Greater(t, refused, uint64(95))
	before := memory.spent
	memory.Earn(1 << 20)
	assert.Equal(t, before-8<<20, memory.spent)
	memory.Earn(1 << 30)
	assert.Zero(t, memory.spent)
}

// TestExpressionsAreBounded: seven bytes may stand for a thousand instructions, and for a million where they nest.
func TestExpressionsAreBounded(t *testing.T) {
	refused := func(body, want string) {
		t.Helper()
		_, err := Parse([]byte(body))
		require.ErrorContains(t, err, want)
	}
	refused(`{"kernhes_manifest": 1, "calls": [{"pattern": "(abcdefghijklmnopqrst){1000}"}]}`, "calls[0].pattern: the expression has more than 16384 instructions")
	many := strings.Repeat(`{"pattern": "a{1000}"},`, 300)
	refused(`{"kernhes_manifest": 1, "calls": [`+strings.TrimSuffix(many, ",")+`]}`, "the expressions up to here have more than 262144 instructions")
}
