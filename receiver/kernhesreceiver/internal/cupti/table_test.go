package cupti

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTableFindsTheLatestLaunchOfAnID adds and removes launches, some with ids of others and some with ids that share a slot,
// and holds the table to a map of lists.
func TestTableFindsTheLatestLaunchOfAnID(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var table table
	want := map[uint32][]*Launch{} // the latest last
	var all []*Launch
	next := uint32(1<<32 - 3000)
	for range 20_000 {
		if len(all) < 100 || r.IntN(100) < 55 {
			id := next
			switch r.IntN(10) {
			case 0:
				id -= uint32(r.IntN(500)) // given before
			case 1:
				id += uint32(leastSlots << r.IntN(12))
			default:
				next += 1 + uint32(r.IntN(2))
			}
			l := &Launch{Correlation: id}
			table.put(l)
			want[id], all = append(want[id], l), append(all, l)
			continue
		}
		i := min(r.IntN(50), len(all)-1)
		l := all[i]
		all = append(all[:i], all[i+1:]...)
		table.remove(l)
		list := want[l.Correlation]
		for k := range list {
			if list[k] == l {
				list = append(list[:k:k], list[k+1:]...)
				break
			}
		}
		if want[l.Correlation] = list; len(list) == 0 {
			delete(want, l.Correlation)
			require.Nil(t, table.get(l.Correlation))
		}
	}
	require.Equal(t, len(want), table.ids)
	require.Greater(t, len(want), 1000)
	for id, list := range want {
		at := table.get(id)
		for k := len(list) - 1; k >= 0; k-- {
			require.Same(t, list[k], at)
			at = at.older
		}
		require.Nil(t, at)
	}
	require.Nil(t, table.get(next+1<<20))
}

// TestIdsThatShareASlotAreSpread: an engine may choose its ids so that all share the low bits.
func TestIdsThatShareASlotAreSpread(t *testing.T) {
	var all table
	const n = 1 << 14
	for i := range uint32(n) {
		all.put(&Launch{Correlation: i << 18})
	}
	longest, found := 0, 0
	for _, l := range all.slots {
		chain := 0
		for ; l != nil; l = l.next {
			chain++
		}
		longest, found = max(longest, chain), found+chain
	}
	if longest > maxChain || found != n {
		t.Errorf("%d of %d launches, up to %d in a slot", found, n, longest)
	}
	for i := range uint32(n) {
		if l := all.get(i << 18); l == nil || l.Correlation != i<<18 {
			t.Fatalf("launch %d is not found", i)
		}
	}
}
