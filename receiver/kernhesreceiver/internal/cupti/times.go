package cupti

import (
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// Slack is how much earlier than its launch a kernel may seem to start, in ns: GPU and host clocks
// agree to some 20 µs, and a conversion that is being corrected is off by a few times that.
const Slack = 100_000

// Ahead is how much later than the clock of the flush that follows it a record may seem to end, in ns.
// The shim reads that clock after the record has come, so Slack would do unless the clock is set.
// Time daemons slew a clock up to 128 ms and step it beyond that.
const Ahead = 128_000_000

// hour is the longest kernel that is believed, in ns.
const hour = 3600e9

// An Invalid is why a record's timestamps cannot be believed.
type Invalid uint8

// Reasons of invalid timestamps.
const (
	Zero Invalid = iota
	Backward
	TooLong
	Future       // it ends after the flush that brought it
	BeforeLaunch // it starts before the call that made it
	invalids
)

// A Clock is the time of the engine's host by which records are checked.
type Clock struct {
	Now uint64 // unix ns
	// Flushed says that Now was read after the records came. Without it a record that ends after Now
	// may be right: PutOff keeps it until the clock of a flush is known.
	Flushed bool
}

// latest is the latest end that can be believed, unix ns.
func (c Clock) latest() uint64 { return min(c.Now, span.Limit-1-Ahead) + Ahead }

// A window is when a record's work can have been.
type window struct{ earliest, latest uint64 }

// holds reports whether times can be believed.
func (w window) holds(start, end uint64) bool {
	return start >= w.earliest && end >= start && end <= w.latest && end-start <= hour
}

// fault says why times that w does not hold cannot be believed.
func (w window) fault(start, end uint64) Invalid {
	switch {
	case start == 0 || end == 0:
		return Zero
	case end < start:
		return Backward
	case end-start > hour:
		return TooLong
	case start < w.earliest:
		return BeforeLaunch
	}
	return Future
}

// window is when the work of a launch can have been, or that of the API call with a correlation id if
// its launch is not known.
func (j *Joiner) window(l *Launch, correlation uint32, c Clock) window {
	at := uint64(0)
	if l != nil {
		at = max(l.Time, Slack) - Slack
	} else {
		at = j.history.earliest(correlation)
	}
	return window{max(at, 1), c.latest()}
}

// PutOff takes records that end after the clock out of a run, into Early, unless the clock is of a flush. Run has
// found the latest end, so a run without such records is not read again.
func (j *Joiner) PutOff(r Run, c Clock) (rest []wire.Kernel) {
	latest := c.latest()
	if c.Flushed || r.last <= latest {
		return r.Records
	}
	for i := range r.Records {
		if k := &r.Records[i]; k.End() > latest && len(j.Early) < maxEarly {
			j.Early = append(j.Early, *k)
		} else {
			rest = append(rest, *k)
		}
	}
	return rest
}

// maxEarly bounds the records that wait for the clock of a flush: 4 MiB. Those beyond are checked by
// the clock that there is.
const maxEarly = 1 << 16
