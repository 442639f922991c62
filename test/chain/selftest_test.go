//go:build chain

package chain_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kernhes selftest on the mock driver: in each mode all kernels that its engine counts come, in windows all of those in them.
func TestSelftest(t *testing.T) {
	for mode, cupti := range map[string]string{"software": "130001", "windows": "130001", "hes": "130500"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			seconds := map[bool]string{true: "3", false: "0.5"}[mode == "windows"]
			c := exec.CommandContext(t.Context(), binary("kernhes"), "selftest", "--json", "--mode", mode, "--seconds", seconds, "--kernels", "40",
				"--cupti", filepath.Join(binary("mock"), cupti, "libcupti.so.13"))
			c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+binary("mock"), "KERNHES_MOCK_HES=accepted")
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
			var said struct {
				Mode     string
				Exact    bool
				Windows  int
				Counted  uint64 `json:"kernels_counted"`
				Recorded uint64 `json:"kernels_recorded"`
			}
			require.NoError(t, json.Unmarshal(out, &said))
			assert.True(t, said.Exact)
			assert.Equal(t, mode, said.Mode)
			assert.Equal(t, said.Counted, said.Recorded)
			assert.Positive(t, said.Recorded)
			assert.Equal(t, mode == "windows", said.Windows > 0)
		})
	}
}
