package median

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedianIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var d Running
	var all []uint64
	for range 1000 {
		wall := random.Uint64N(50) // with equal ones
		d.Add(wall)
		all = append(all, wall)
		last := slices.Sorted(slices.Values(all[max(0, len(all)-Window):]))
		require.Equal(t, last[len(last)/2], d.Middle())
	}
}
