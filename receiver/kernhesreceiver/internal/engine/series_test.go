package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRanksOfDevices(t *testing.T) {
	rank := func(pairs ...string) int64 {
		s := newScript(t, pairs...)
		s.oneStep(0, 1)
		s.Flushed(1000)
		return s.report().Rank
	}
	require.EqualValues(t, 3, rank("rank", "3"))
	require.EqualValues(t, 5, rank("rank", "", "visible_devices", "5,6"))
	require.EqualValues(t, 0, rank("rank", "", "visible_devices", "GPU-1234"))
}

func TestBuckets(t *testing.T) {
	cfg := testSettings()
	b := newBuckets(cfg.BatchEdges, cfg.KVEdges)
	for n, want := range map[int64]string{0: "unknown", 1: "1", 2: "2", 3: "4", 5: "8", 33: "48", 32768: "32768", 32769: "+Inf"} {
		require.Equal(t, want, b.batch.label(n), n)
	}
	for n, want := range map[int64]string{0: "unknown", 1: "1024", 1024: "1024", 1025: "4096", 2 << 20: "+Inf"} {
		require.Equal(t, want, b.kv.label(n), n)
	}
}

func TestSeriesAreCapped(t *testing.T) {
	s := newScript(t)
	s.p.set.maxSeries = 3
	for i := range uint64(10) {
		s.Push(i*100, "step:program"+string(rune('a'+i))+" tokens=1")
		s.Launch(i*100+1, uint32(i+1))
		s.Pop(i*100 + 2)
		s.Ran(uint32(i+1), i*100+10, i*100+20)
	}
	s.Flushed(10_000)
	r := s.report()
	require.Len(t, r.Series, 4)
	for _, x := range r.Series {
		if x.Program == "other" {
			require.EqualValues(t, 7, x.Steps)
		}
	}
}
