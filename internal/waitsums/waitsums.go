// Package waitsums hands what ranks waited from the connector kernwaits to the live page of the same process.
package waitsums

import "sync"

// A Key names waits: of a rank of a run, by what the last rank to arrive did before.
type Key struct {
	Run   string
	Rank  int64
	Cause string
}

// A Sum is cumulative, ns: what the rank waited for others, and what they waited for it.
type Sum struct{ Wait, Blame uint64 }

var (
	mu     sync.Mutex
	boards = map[any]map[Key]Sum{}
)

// Publish sets the sums of a connector. They are not changed afterwards.
func Publish(owner any, sums map[Key]Sum) {
	mu.Lock()
	defer mu.Unlock()
	boards[owner] = sums
}

// Withdraw takes the sums of a connector back.
func Withdraw(owner any) {
	mu.Lock()
	defer mu.Unlock()
	delete(boards, owner)
}

// All is the sums of all connectors; false: there is none.
func All() (map[Key]Sum, bool) {
	mu.Lock()
	defer mu.Unlock()
	all := map[Key]Sum{}
	for _, sums := range boards {
		for k, s := range sums {
			a := all[k]
			all[k] = Sum{a.Wait + s.Wait, a.Blame + s.Blame}
		}
	}
	return all, len(boards) > 0
}
