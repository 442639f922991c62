// Package sim runs a simulated fleet: ranks of an engine that speak the wire as shims do, and the
// truth about them.
//
//	load      requests become batches
//	program   a batch becomes kernels
//	fleet     kernels run, and ranks meet
//	fault     what goes wrong meanwhile
//	clock     what a GPU's clock shows
//	truth     what really happened
//	shim      what a shim tells of it, by internal/sender
//	link      to the collector
package sim

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kernhes/kernhes/internal/sim/fault"
	"github.com/kernhes/kernhes/internal/sim/load"
	"github.com/kernhes/kernhes/internal/sim/program"
)

// An Identity is how the collector learns the run and the ranks.
type Identity string

// Identities.
const (
	Env  Identity = "env"  // HELLO gives both, as of an engine with KERNHES_RUN and KERNHES_RANK
	NCCL Identity = "nccl" // HELLO gives neither: NCCL's payloads do, of the communicator of all ranks
)

// A Config says what is simulated.
type Config struct {
	Layout   program.Layout
	Seed     uint64
	Run      string // name of the run, with Identity Env
	Identity Identity
	Host     string
	Duration time.Duration // simulated
	Steps    int           // at most; 0: as many as there are
	Start    time.Time     // of simulated time; zero: now, or so long before it that it ends now
	Paced    bool          // simulated time passes as real time does
	Load     load.Settings
	Schedule fault.Schedule

	Jitter   float64 // how much times of kernels vary: 1 as in the recordings, 0 not at all
	True     bool    // the GPUs' clocks show the true time
	Flush    time.Duration
	Disorder uint64
	Window   time.Duration // traced windows of that length, one in each Every; 0: all is traced
	Every    time.Duration
	Untraced bool // ranges only

	Endpoint string
	Bound    int // unacknowledged bytes of a rank
	Cut      int // connections end after so many frames
	Patience time.Duration
	// Emit, if it is set, takes the place of connections.
	Emit func(rank int, session uint64) func(number uint64, frame []byte)

	Began func(run string) // nil, or called with the name of each run when it begins
	Truth io.Writer        // nil: none
	Waits bool             // the truth has a line a meeting
}

// Defaults are a fleet of four ranks for a minute, as fast as the collector takes it.
func Defaults() Config {
	return Config{
		Layout: program.Layouts()[0], Seed: 1, Run: "sim", Identity: Env, Host: "simulated", Duration: time.Minute, Load: load.Defaults(), Jitter: 1,
		Flush: 100 * time.Millisecond, Every: 5 * time.Second, Bound: 64 << 20, Patience: time.Minute, Waits: true,
	}
}

// Validate reports what cannot be simulated.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Duration > 0 && c.Duration <= 24*time.Hour, "duration %v, want more than 0, at most 24h", c.Duration)
	check(c.Identity == Env || c.Identity == NCCL, "identity %q, want env or nccl", c.Identity)
	check(c.Identity != NCCL || c.Layout.Ranks() > 1, "identity nccl with one rank: a communicator of one names no run")
	check(c.Flush >= time.Millisecond, "flush %v, want at least 1ms", c.Flush)
	check(c.Window == 0 || c.Window < c.Every, "window %v, want less than every %v", c.Window, c.Every)
	check(c.Window == 0 || !c.Untraced, "windows, and ranges only: want one of them")
	check(c.Load.Rate >= 0 && c.Load.Rate <= 1e5, "rate %v, want 0 to 100000 requests a second", c.Load.Rate)
	check(c.Load.Rate > 0 || c.Load.Burst > 0 && c.Load.BurstEvery > 0, "no requests: want a rate or bursts")
	check(c.Load.Chunk > 0 && c.Load.Prompt > 0 && c.Load.Output > 0 && c.Load.Sequences > 0, "chunk, prompt, output and sequences: want more than 0")
	check(c.Bound >= 1<<20, "bound of %d bytes, want at least 1 MiB", c.Bound)
	for _, e := range c.Schedule {
		check(e.Of < c.Layout.Ranks(), "fault %s: rank %d of %d", e.Name, e.Of, c.Layout.Ranks())
	}
	return errors.Join(errs...)
}
