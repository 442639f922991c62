package groups

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const allReduce, sendRecv, megaMoE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclDevKernel_SendRecv", "mega_moe_kernel"

func TestGroupsOfRanks(t *testing.T) {
	check := func(sizes map[string]int64, kernel string, want ...string) {
		t.Helper()
		g, err := Of(sizes)
		require.NoError(t, err)
		for rank, group := range want {
			require.Equal(t, group, g.Call(int64(rank), "decode.layers.3.o_proj", "", kernel), "rank %d", rank)
		}
	}
	check(nil, allReduce, "", "")
	check(map[string]int64{"tp": 2, "dp": 4}, allReduce, "tp:0", "tp:0", "tp:1", "tp:1", "tp:2", "tp:2", "tp:3", "tp:3", "tp:4")
	// Two pipelines of two stages of two: the stages of a pipeline are two ranks apart.
	check(map[string]int64{"tp": 2, "pp": 2, "dp": 2}, sendRecv, "pp:0", "pp:1", "pp:0", "pp:1", "pp:2", "pp:3", "pp:2", "pp:3")
	check(map[string]int64{"dp": 2}, allReduce, "dp:0", "dp:0", "dp:1")
	check(map[string]int64{"tp": 2, "ep": 4}, megaMoE, "ep:0", "ep:0", "ep:0", "ep:0", "ep:1")
	check(map[string]int64{"tp": 2, "ep": 4}, allReduce, "tp:0", "tp:0", "tp:1", "tp:1", "tp:2")
	check(map[string]int64{"tp": 2}, megaMoE, "tp:0", "tp:0", "tp:1")
	check(map[string]int64{"ep": 2}, allReduce, "ep:0", "ep:0", "ep:1")
}

func TestLabelOrOpNameTheAxis(t *testing.T) {
	g, err := Of(map[string]int64{"tp": 2, "ep": 4})
	require.NoError(t, err)
	require.Equal(t, "ep:1", g.Call(5, "prefill.target.moe.layers.8.experts", "", "k"))
	require.Equal(t, "ep:1", g.Call(5, "", "fused_moe", "k"))
	require.Equal(t, "tp:2", g.Call(5, "prefill.target.attention", "gemm", "k"))
	require.Empty(t, g.Call(-1, "", "", "k"), "a device without a rank")
}

func TestWrongSizesAreRefused(t *testing.T) {
	for text, sizes := range map[string]map[string]int64{
		`axis "tensor", want one of tp, cp, pp, dp, ep`:        {"tensor": 2},
		"axis tp: 0 ranks, want 1 to 16777216":                 {"tp": 0},
		"axis dp: -4 ranks, want 1 to 16777216":                {"dp": -4},
		"67108864 ranks or more in all, want at most 16777216": {"tp": 8192, "dp": 8192},
	} {
		_, err := Of(sizes)
		require.EqualError(t, err, text)
	}
}
