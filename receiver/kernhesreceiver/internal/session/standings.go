package session

import (
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
)

// Standings are all live sessions, as requests for engines see them.
func (t *Sessions) Standings() (all []fleet.Standing) {
	for _, s := range t.all() {
		if one, ok := s.standing(); ok {
			all = append(all, one)
		}
	}
	return all
}

// Standing is one live session; false: it has ended.
func (t *Sessions) Standing(session uint64) (fleet.Standing, bool) {
	s := t.table.live(session)
	if s == nil {
		return fleet.Standing{}, false
	}
	return s.standing()
}

// standing is how a session's engine stands; false: it has ended.
func (s *session) standing() (fleet.Standing, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return fleet.Standing{}, false
	}
	return fleet.Standing{Session: s.id, Connected: s.conn != nil, Standing: s.engine.Standing()}, true
}

// writeTimeout is how long a person waits for engines that do not take a command.
const writeTimeout = 3 * time.Second

// Command sends a frame to the engine of a session; false: its connection ends, or there is none.
func (t *Sessions) Command(session uint64, frame []byte) bool {
	s := t.table.live(session)
	if s == nil {
		return false
	}
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil || conn.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
		return false
	}
	if _, err := conn.Write(frame); err != nil { // whole, whoever else writes
		_ = conn.Close() // else what is written next would go on in the middle of a frame
		return false
	}
	return true
}
