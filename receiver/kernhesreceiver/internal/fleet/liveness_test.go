package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

func TestNotice(t *testing.T) {
	for _, c := range []struct {
		silent time.Duration
		hung   bool
		want   string
	}{
		{0, false, ""}, {silentAfter - 1, false, ""}, {silentAfter, false, Silent}, {0, true, Hung}, {time.Hour, true, Silent},
	} {
		r := []engine.Report{{Hung: c.hung}}
		MarkDown(r, c.silent)
		assert.Equal(t, c.want, r[0].Down)
	}
}

func TestEndings(t *testing.T) {
	var e Endings
	rank := func(i int) *engine.Report {
		return &engine.Report{Info: map[string]string{"run": fmt.Sprintf("run%03d", i)}, Rank: 2}
	}
	e.Live(rank(0))
	require.Equal(t, []Ending{{Run: "run000", Rank: 2, liveAt: 1}}, e.Take().Counts, "0 from the start")
	e.Add(rank(0), true)
	e.Add(rank(0), false)
	got := e.Take().Counts
	require.Len(t, got, 1)
	require.Equal(t, []uint64{1, 1}, []uint64{got[0].Bye, got[0].Gone})
	e.Live(rank(1)) // goes without an end, as a session whose run is named anew
	e.Take()
	got = e.Take().Counts
	require.Len(t, got, 1)

	for i := range 1000 {
		e.Add(rank(i), i%2 == 0)
	}
	e.Live(rank(2000))
	all := e.Take()
	var bye, gone uint64
	for _, c := range all.Counts {
		bye, gone = bye+c.Bye, gone+c.Gone
	}
	require.Equal(t, []uint64{501, 501}, []uint64{bye, gone}, "none is forgotten")
	require.Len(t, all.Counts, maxEndings+2)
	require.Equal(t, otherRun, all.Counts[len(all.Counts)-1].Run)
	require.Equal(t, "run000", all.Folded[0].Run)
	require.Len(t, all.Folded, 1, "only what was exported needs an end")
	all = e.Take()
	require.Len(t, all.Folded, 1)
	require.Equal(t, "run2000", all.Folded[0].Run, "it is live no more, and none of it ended")
	require.Len(t, e.Take().Counts, maxEndings+1)
}
