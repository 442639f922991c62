//go:build chain

package chain_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
)

var versions = []string{"12080", "12090", "130000", "130001", "130100", "130200", "130300", "130400", "130401", "130500"}

// Each version of CUPTI, with a GPU that has HES, has it not, or refuses it when the first context is there: the mode that
// is really on is told, and the records come in each.
func TestModes(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	story := krec.GraphCopies()
	path := write(t, story)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			for _, test := range []struct {
				hes, gpu, software string
				mode               string
			}{
				{"auto", "accepted", "on", "software"}, // HES is asked for: it has not been seen on hardware
				{"on", "accepted", "on", "hes"},
				{"on", "accepted", "off", "hes"},
				{"on", "refused", "on", "software"},
				{"on", "late", "on", "software"},
				{"off", "accepted", "on", "software"},
				{"on", "refused", "off", "off"},
				{"auto", "refused", "off", "off"},
			} {
				t.Run(test.hes+" "+test.gpu+" software "+test.software, func(t *testing.T) {
					ranks, tallies := c.play(t, "--cupti", version, "KERNHES_HES="+test.hes, "KERNHES_MOCK_HES="+test.gpu,
						"KERNHES_SOFTWARE="+test.software, "KERNHES_POOL_BUFFERS=4", path)
					assert.Equal(t, test.mode, ranks[0].Mode)
					if test.mode == "off" {
						require.Len(t, ranks, 1)
						assert.Zero(t, ranks[0].Kernels)
						assert.Positive(t, tallies[0]["untraced"])
						return
					}
					sameAsOracle(t, story, ranks)
				})
			}
		})
	}
}

// A whole recording in each version: records of other sizes, and other calls to fetch them.
func TestVersions(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			hes := map[bool]string{true: "hes", false: "software"}[version > "130300"]
			ranks, _ := c.play(t, "--cupti", version, "KERNHES_HES=on", "KERNHES_MOCK_HES="+map[string]string{"hes": "accepted", "software": "refused"}[hes],
				file("tp2.rank1"))
			require.Len(t, ranks, 1)
			assert.Equal(t, hes, ranks[0].Mode)
			isExpected(t, "tp2.rank1", ranks[0])
		})
	}
}
