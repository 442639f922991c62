package cupti

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCallOwner(t *testing.T) {
	j := New(DefaultLimits, nil, nil)
	add := func(owner uint64, ids ...uint32) {
		for _, id := range ids {
			j.calls = j.calls.add(id, owner)
		}
	}
	check := func(id uint32, owner uint64, known bool) {
		t.Helper()
		got, ok := j.CallOwner(id)
		require.Equal(t, owner, got, "call %d", id)
		require.Equal(t, known, ok, "call %d", id)
	}
	check(5, 0, false)
	add(1, 10, 12, 20)
	add(2, 30)
	add(0, 40, 45)
	check(9, 0, true) // before all
	check(10, 1, true)
	check(15, 1, true)
	check(25, 0, true) // between two steps
	check(30, 2, true)
	check(42, 0, true)
	check(50, 0, false) // a launch of its step may follow
	// A launch of another thread that is told of late, amid those of step 1.
	add(3, 16)
	check(15, 1, true)
	check(16, 3, true)
	check(17, 1, true)
	check(20, 1, true)
}

func TestCallOwnerOverTheWrap(t *testing.T) {
	j := New(DefaultLimits, nil, nil)
	for _, id := range []uint32{1<<32 - 10, 1<<32 - 1, 4} {
		j.calls = j.calls.add(id, 1)
	}
	j.calls = j.calls.add(8, 2)
	for id, want := range map[uint32]uint64{1<<32 - 5: 1, 0: 1, 4: 1, 6: 0, 8: 2} {
		owner, known := j.CallOwner(id)
		require.True(t, known)
		require.Equal(t, want, owner, "call %d", id)
	}
}

func TestCallSpansAreBounded(t *testing.T) {
	var c callSpans
	for id := range uint32(10 * maxCallSpans) {
		c = c.add(id, uint64(id)) // each of another step
		require.LessOrEqual(t, len(c), maxCallSpans)
	}
	require.Equal(t, uint32(10*maxCallSpans-1), c[len(c)-1].last)
}
