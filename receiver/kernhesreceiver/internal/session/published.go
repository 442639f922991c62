package session

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
)

// A published is how a session stood at one time. It does not change.
type published struct {
	connected   bool
	left, heard time.Time
	reports     []engine.Report
	openFrames  uint64
	heldBy      string
	standing    engine.Standing
}

const (
	// lookFor is how long those who ask how sessions stand wait, in all, for those that are at a frame. Such a session publishes between
	// two parts of the frame; one that does not stands as it was published last.
	lookFor  = 100 * time.Millisecond
	lookEach = time.Millisecond
)

// publish says how the session stands, for those who do not wait for mu. The caller holds mu.
func (s *session) publish() *published {
	p := &published{connected: s.conn.get() != nil, left: s.left, heard: s.heard, reports: s.reports(), standing: s.engine.Standing()}
	settled, by := s.engine.Holds()
	p.openFrames, p.heldBy = s.engine.Received()-settled, by
	s.latest.Store(p)
	return p
}

// pause lets others have mu between two parts of a frame, and answers those who asked how the session stands. The caller holds mu.
func (s *session) pause() {
	if s.asked.Swap(false) {
		s.publish()
	}
	s.mu.Unlock()
	s.mu.Lock()
}

// tryPublish publishes if mu is free; nil: it is not, or the session has ended. Reports take time: a standing alone is not kept.
func (s *session) tryPublish(alone bool) *published {
	if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	if alone {
		return &published{connected: s.conn.get() != nil, standing: s.engine.Standing()}
	}
	return s.publish()
}

// look returns how each session stands, with reports unless alone; nil: it has ended. No session keeps it waiting.
func look(sessions []*session, alone bool) []*published {
	found := make([]*published, len(sessions))
	before := make([]*published, len(sessions))
	for i, s := range sessions {
		if found[i] = s.tryPublish(alone); found[i] == nil {
			before[i] = s.latest.Load()
			s.asked.Store(true)
		}
	}
	deadline := time.Now().Add(lookFor)
	for i, s := range sessions {
		for found[i] == nil && !s.over.Load() {
			if now := s.latest.Load(); now != before[i] || !time.Now().Before(deadline) {
				found[i] = now
				break
			}
			if found[i] = s.tryPublish(alone); found[i] == nil {
				time.Sleep(lookEach)
			}
		}
		if s.over.Load() {
			found[i] = nil
		}
	}
	return found
}

// Live is the sessions that have not ended.
func (t *Sessions) Live(now time.Time) (sessions []fleet.Session) {
	all := t.all()
	for i, p := range look(all, false) {
		if p == nil {
			continue
		}
		s := all[i]
		one := fleet.Session{ID: s.id, Connected: p.connected, Reports: slices.Clone(p.reports), OpenFrames: p.openFrames, HeldBy: p.heldBy}
		fleet.MarkDown(one.Reports, max(0, now.Sub(p.heard)))
		if !one.Connected {
			one.Waits = now.Sub(p.left)
		}
		sessions = append(sessions, one)
	}
	return sessions
}

// A connection is what an engine is connected by. It has a lock of its own, so that a command waits for no frame.
type connection struct {
	mu   sync.Mutex
	conn net.Conn
}

// get is the connection; nil: none is.
func (c *connection) get() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

func (c *connection) set(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
}

// close closes it, if there is one.
func (c *connection) close() (was bool) {
	conn := c.get()
	if conn != nil {
		_ = conn.Close()
	}
	return conn != nil
}
