package session

import (
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/fleet"
)

// Standings are all live sessions, as requests for engines see them.
func (t *Sessions) Standings() (all []fleet.Standing) { return standings(t.all()) }

// Standing is one live session; false: it has ended.
func (t *Sessions) Standing(id uint64) (fleet.Standing, bool) {
	s := t.table.live(id)
	if s == nil {
		return fleet.Standing{}, false
	}
	all := standings([]*session{s})
	if len(all) == 0 {
		return fleet.Standing{}, false
	}
	return all[0], true
}

// standings are how the engines of sessions stand that have not ended.
func standings(sessions []*session) (all []fleet.Standing) {
	for i, p := range look(sessions, true) {
		if p != nil {
			all = append(all, fleet.Standing{Session: sessions[i].id, Connected: p.connected, Standing: p.standing})
		}
	}
	return all
}

// writeTimeout is how long a person waits for engines that do not take a command.
const writeTimeout = 3 * time.Second

// Command sends a frame to the engine of a session; false: its connection ends, or there is none.
func (t *Sessions) Command(session uint64, frame []byte) bool {
	s := t.table.live(session)
	if s == nil {
		return false
	}
	conn := s.conn.get()
	if conn == nil || conn.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
		return false
	}
	if _, err := conn.Write(frame); err != nil { // whole, also while others write
		_ = conn.Close() // else what is written next would go on in the middle of a frame
		return false
	}
	return true
}
