package session

import (
	"sync"
	"time"
)

// A rate counts new sessions by who begins them, for a minute at a time. The zero rate is ready.
type rate struct {
	mu    sync.Mutex
	since time.Time
	begun map[string]int
}

// maxRates bounds those that are counted apart; all others count as one.
const maxRates = 1024

// begin counts a new session; false: limit began within the minute already.
func (r *rate) begin(by string, limit int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) >= time.Minute || now.Before(r.since) {
		r.since, r.begun = now, map[string]int{}
	}
	if _, known := r.begun[by]; !known && len(r.begun) >= maxRates {
		by = ""
	}
	if limit > 0 && r.begun[by] >= limit {
		return false
	}
	r.begun[by]++
	return true
}
