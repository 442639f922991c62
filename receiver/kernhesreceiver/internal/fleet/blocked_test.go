package fleet

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

func TestBlockers(t *testing.T) {
	rank := func(n int64, at engine.Where, call string) Session {
		r := engine.Report{Info: map[string]string{"run": "r"}, Rank: n}
		if at != "" {
			r.Stall = &engine.Stall{At: at, Call: call}
		}
		return Session{Reports: []engine.Report{r}}
	}
	check := func(what string, want map[int64]Why, sessions ...Session) {
		t.Helper()
		got := map[int64]Why{}
		for _, b := range Blockers(sessions) {
			got[b.Rank] = b.Why
		}
		assert.Equal(t, want, got, what)
	}
	none := map[int64]Why{}
	const comm, kernel, host = engine.AtComm, engine.AtKernel, engine.AtHost
	check("nothing stands still", none, rank(0, "", ""), rank(1, "", ""))
	check("an engine without requests", none, rank(0, host, ""), rank(1, host, ""))
	check("one kernel does not end", map[int64]Why{1: OwnKernel}, rank(0, comm, "decode.l1"), rank(1, kernel, "decode.l0"), rank(2, comm, "prefill.l1"))
	check("one rank launches nothing", map[int64]Why{1: OwnHost}, rank(0, comm, "decode.l1"), rank(1, host, ""))
	check("one rank left a call out", map[int64]Why{2: OtherCall}, rank(0, comm, "decode.l1"), rank(1, comm, "prefill.l1"), rank(2, comm, "decode.l2"))
	check("all wait in one call", none, rank(0, comm, "decode.l1"), rank(1, comm, "prefill.l1"))
	check("a rank that goes on is no blocker", none, rank(0, comm, "decode.l1"), rank(1, "", ""))
	gone := rank(1, "", "")
	gone.Reports[0].Down = Gone
	check("a process ended", none, rank(0, kernel, "decode.l1"), gone)
}
