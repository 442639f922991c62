// Package flood holds back log lines that repeat.
package flood

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A Guard logs warnings of a kind once a minute, other lines a few times, with how many of them it did not log. The zero Guard is ready; one serves many
// goroutines.
type Guard struct {
	mu   sync.Mutex
	said map[Kind]*heldBack
}

// A Kind of lines is of whom they tell, and what.
type Kind struct{ Who, What string }

// heldBack is a kind of which lines were logged, and how often it came since.
type heldBack struct {
	since, came time.Time // begin of its minute; last line
	logged      int       // in its minute
	more        int
}

const (
	interval = time.Minute
	// burst is how many lines that are no warnings are logged in a minute: the ranks of a host come at once.
	burst = 32
	// maxKinds bounds those that are told apart; all others count as one.
	maxKinds = 256
)

// Warn logs a line, with how many of its kind it did not log, if one is to be logged now.
func (g *Guard) Warn(log *zap.Logger, of Kind, message string, fields ...zap.Field) {
	g.write(log, zapcore.WarnLevel, of, message, fields)
}

// Info logs a line, unless as many of its kind were in this minute as come from a host that starts.
func (g *Guard) Info(log *zap.Logger, of Kind, message string, fields ...zap.Field) {
	g.write(log, zapcore.InfoLevel, of, message, fields)
}

// Error is Warn for errors.
func (g *Guard) Error(log *zap.Logger, of Kind, message string, fields ...zap.Field) {
	g.write(log, zapcore.ErrorLevel, of, message, fields)
}

func (g *Guard) write(log *zap.Logger, level zapcore.Level, of Kind, message string, fields []zap.Field) {
	most := 1
	if level < zapcore.WarnLevel {
		most = burst
	}
	more, ok := g.say(of, most, time.Now())
	if !ok {
		return
	}
	if more > 0 || most == 1 {
		fields = append(fields, zap.Int("not_logged_before", more))
	}
	log.Log(level, message, fields...)
}

// say reports whether a line is to be logged now, of at most so many in a minute, and how many of its kind were not since the last
// that was.
func (g *Guard) say(of Kind, most int, now time.Time) (more int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.held(of, now)
	h.came = now
	if now.Sub(h.since) >= interval {
		h.since, h.logged = now, 0
	}
	if h.logged >= most {
		h.more++
		return 0, false
	}
	h.logged++
	more, h.more = h.more, 0
	return more, true
}

// held is what is known of a kind. New ones replace those that came no more.
func (g *Guard) held(of Kind, now time.Time) *heldBack {
	if g.said == nil {
		g.said = map[Kind]*heldBack{}
	}
	if h := g.said[of]; h != nil {
		return h
	}
	if len(g.said) >= maxKinds {
		for other, h := range g.said {
			if now.Sub(h.came) >= interval {
				delete(g.said, other)
			}
		}
	}
	if len(g.said) >= maxKinds {
		of = Kind{}
	}
	h := g.said[of]
	if h == nil {
		h = &heldBack{}
		g.said[of] = h
	}
	return h
}
