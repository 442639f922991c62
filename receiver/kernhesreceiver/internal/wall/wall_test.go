package wall

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBoundsAreInclusive(t *testing.T) {
	var c Counts
	for _, ns := range []uint64{0, 250e3, 250e3 + 1, 3e6, 3e6 + 1, 30e9, 30e9 + 1} {
		c.Add(ns)
	}
	at := slices.Index(Default, 3e6)
	assert.EqualValues(t, 2, c.Fixed[0])
	assert.EqualValues(t, 1, c.Fixed[1])
	assert.EqualValues(t, 1, c.Fixed[at])
	assert.EqualValues(t, 1, c.Fixed[at+1])
	assert.EqualValues(t, 1, c.Fixed[len(Default)-1])
	assert.EqualValues(t, 1, c.Fixed[len(Default)])
	assert.True(t, slices.IsSorted(Default))
}

func TestABoundIsChecked(t *testing.T) {
	l, err := New(false, []time.Duration{time.Millisecond, time.Second})
	require.NoError(t, err)
	c := Counts{Layout: l}
	c.Add(2e6)
	assert.Equal(t, []uint64{0, 1, 0}, c.Fixed)

	for want, bounds := range map[string][]time.Duration{
		"bounds: 0s at place 1: want times above 0, each above the one before":  {0, 1},
		"bounds: 5ns at place 2: want times above 0, each above the one before": {5, 5},
		"bounds: 201 of them: want 200 at most":                                 make([]time.Duration, 201),
	} {
		_, err := New(false, bounds)
		require.EqualError(t, err, want)
	}
	_, err = New(true, []time.Duration{1})
	require.Error(t, err)
	l, err = New(false, nil)
	require.NoError(t, err)
	assert.Equal(t, Default, l.Bounds)
}

// quantile reads a quantile as Prometheus does: within the bucket in which it lies, by the upper bound (fixed: a worst case) or by the
// bucket's geometric middle.
func quantile(c *Counts, q float64) float64 {
	b := c.Expo.Positive()
	rank := uint64(math.Ceil(q * float64(c.Expo.Count())))
	sum := uint64(0)
	for i := range b.Len() {
		if sum += b.At(i); sum >= rank {
			return math.Pow(2, (float64(b.Offset())+float64(i)+0.5)*math.Pow(2, -float64(c.Expo.Scale())))
		}
	}
	return math.Inf(1)
}

// Decode steps of 10 ms give or take a fifth, of which one in fifty waits for a prefill of 0.1 to 0.6 s: p99 of the exponential
// histogram is off by less than 5%.
func TestExponentialQuantilesAreExactTo5Percent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := Counts{Layout: &Layout{Exponential: true}}
	var times []float64
	for range 20_000 {
		s := 0.010 * (0.8 + 0.4*random.Float64())
		if random.IntN(50) == 0 {
			s = 0.1 + 0.5*random.Float64()
		}
		times = append(times, s)
		c.Add(uint64(s * 1e9))
	}
	c.Add(1e3) // and one that stretches it over six decades
	times = append(times, 1e-6)
	slices.Sort(times)
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		assert.InEpsilon(t, times[int(math.Ceil(q*float64(len(times))))-1], quantile(&c, q), 0.05, q)
	}
}

func TestACloneDoesNotChange(t *testing.T) {
	for _, l := range []*Layout{{Exponential: true}, Fixed} {
		c := Counts{Layout: l}
		c.Add(1e6)
		d := c.Clone()
		c.Add(1e6)
		c.Add(9e9)
		if l.Exponential {
			assert.EqualValues(t, 1, d.Expo.Count())
			assert.EqualValues(t, 3, c.Expo.Count())
			continue
		}
		assert.EqualValues(t, 1, d.Fixed[slices.Index(Default, 1e6)])
		assert.EqualValues(t, 2, c.Fixed[slices.Index(Default, 1e6)])
	}
}
