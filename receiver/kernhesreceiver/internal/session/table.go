package session

import (
	"cmp"
	"slices"
	"sync"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
)

// A table holds the sessions by id.
type table struct {
	mu       sync.Mutex
	limit    int
	sessions map[uint64]*session
	past     map[uint64]remembered // of sessions that have ended
	order    []uint64              // of past, oldest first
	bye      uint64
	gone     uint64
	begun    uint64 // sessions, until now
}

// maxPast bounds the ended sessions that are remembered: an engine whose last acknowledgement was lost asks again within seconds.
const maxPast = 4096

func newTable(limit int) *table {
	return &table{limit: limit, sessions: map[uint64]*session{}, past: map[uint64]remembered{}}
}

// remember keeps what is known of an ended session.
func (t *table) remember(id uint64, r remembered) {
	if _, ok := t.past[id]; !ok {
		t.order = append(t.order, id)
	}
	t.past[id] = r
	if len(t.order) > maxPast {
		delete(t.past, t.order[0])
		t.order = t.order[1:]
	}
}

// givesWay is the session that makes room for a newcomer; nil: none does, or there is room.
func (t *table) givesWay(newcomer share.Peer) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sessions) < t.limit {
		return nil
	}
	var holders []share.Holder
	var sessions []*session
	for _, s := range t.sessions {
		holders, sessions = append(holders, share.Holder{Peer: s.peer, Since: s.place}), append(sessions, s)
	}
	if i, ok := share.GivesWay(newcomer, holders); ok {
		return sessions[i]
	}
	return nil
}

// find returns the live session of an id, or makes it by begin. It returns nil if the table is full.
func (t *table) find(id uint64, begin func(past remembered) *session) (s *session, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[id]; s != nil {
		return s, true
	}
	if len(t.sessions) >= t.limit {
		return nil, false
	}
	s = begin(t.past[id])
	t.begun++
	s.place = t.begun
	t.sessions[id] = s
	return s, false
}

// SaidBye returns the last frame of a session that ended with BYE.
func (t *table) SaidBye(id uint64) (frame uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.past[id]
	return r.frame, r.bye && t.sessions[id] == nil
}

// end takes a session that is over out of the table.
func (t *table) end(s *session, gone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, s.id)
	t.remember(s.id, remembered{frame: s.acked, bye: !gone})
	if gone {
		t.gone++
	} else {
		t.bye++
	}
}

// Ended is how many sessions ended in each way.
func (t *table) Ended() (bye, gone uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bye, t.gone
}

// all is the live sessions, in the order in which they began.
func (t *table) all() []*session {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*session, 0, len(t.sessions))
	for _, s := range t.sessions {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *session) int { return cmp.Compare(a.place, b.place) })
	return all
}

// live is the session of an id; nil: none is live.
func (t *table) live(id uint64) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sessions[id]
}
