package session

import (
	"sync"
	"time"
)

// A trouble is what goes wrong with delivering, of all sessions.
type trouble struct {
	mu      sync.Mutex
	since   time.Time // zero: all was delivered the last time
	last    string    // what went wrong last
	refused uint64    // records
}

// note takes what became of delivering, and reports whether it begins to fail or works again.
func (t *trouble) note(err error, now time.Time) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := !t.since.IsZero()
	switch {
	case err == nil:
		t.since = time.Time{}
		return was
	case !was:
		t.since = now
	}
	t.last = err.Error()
	return !was
}

// refuse counts records that were refused for good.
func (t *trouble) refuse(records uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused += records
	t.last = err.Error()
}

// A Trouble is what goes or went wrong with delivering and still matters.
type Trouble struct {
	Error   string
	Since   time.Time // nothing is taken since then; zero: all is taken again
	Refused uint64    // records that were refused for good
}

// Trouble is what goes wrong with delivering; false: nothing does.
func (t *Sessions) Trouble() (Trouble, bool) { return t.trouble.status() }

// status returns false while nothing goes or went wrong that still matters.
func (t *trouble) status() (Trouble, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since.IsZero() && t.refused == 0 {
		return Trouble{}, false
	}
	return Trouble{Error: t.last, Since: t.since, Refused: t.refused}, true
}
