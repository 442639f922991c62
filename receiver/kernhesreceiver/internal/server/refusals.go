package server

import (
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
)

// refusals hold back what would be logged each second: who is refused, or sends a bad frame, tries again. The zero refusals are ready.
type refusals struct {
	mu   sync.Mutex
	said map[refusal]*heldBack
}

// A refusal is who was refused, and why.
type refusal struct{ peer, reason string }

// heldBack is a refusal that was logged, and how often it came since.
type heldBack struct {
	logged, came time.Time // last
	more         int
}

const (
	refusalInterval = time.Minute
	// maxRefusals bounds those that are told apart; all others count as one.
	maxRefusals = 256
)

// warn logs a refusal, with how often one like it was not, if that is to be logged now.
func (r *refusals) warn(log *zap.Logger, of refusal, message string, fields ...zap.Field) {
	if more, ok := r.say(of, time.Now()); ok {
		log.Warn(message, append(fields, zap.Int("not_logged_before", more))...)
	}
}

// say reports whether a refusal is to be logged now, and how many like it were not since the last that was.
func (r *refusals) say(of refusal, now time.Time) (more int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.held(of, now)
	h.came = now
	if !h.logged.IsZero() && now.Sub(h.logged) < refusalInterval {
		h.more++
		return 0, false
	}
	more, h.more, h.logged = h.more, 0, now
	return more, true
}

// held is what is known of a refusal. Those that came no more give way to new ones: kernhes_connections_refused and kernhes_protocol_errors have all.
func (r *refusals) held(of refusal, now time.Time) *heldBack {
	if r.said == nil {
		r.said = map[refusal]*heldBack{}
	}
	if h := r.said[of]; h != nil {
		return h
	}
	if len(r.said) >= maxRefusals {
		for other, h := range r.said {
			if now.Sub(h.came) >= refusalInterval {
				delete(r.said, other)
			}
		}
	}
	if len(r.said) >= maxRefusals {
		of = refusal{}
	}
	h := r.said[of]
	if h == nil {
		h = &heldBack{}
		r.said[of] = h
	}
	return h
}

// peerName tells peers apart, over all their connections: the process on this host, or the other host.
func peerName(conn net.Conn) string {
	if socket, ok := conn.(*net.UnixConn); ok {
		if uid, pid, err := peerOf(socket); err == nil {
			return fmt.Sprintf("process %d of user %d", pid, uid)
		}
	}
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
