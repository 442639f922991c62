package fleet

import (
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
)

// Why an engine is not heard, as kern_up says it.
const (
	Silent = "silent" // no frame comes: it is stopped, or cut off, or its connection ended a moment ago
	Hung   = "hung"   // frames come, but the engine does nothing and kernels that it launched do not come
	Gone   = "gone"   // its connection ended without BYE, and it did not come back
	Ended  = "ended"  // it sent BYE
)

// silentAfter is how long no frame comes before an engine counts as silent: a shim that is well sends one each second.
const silentAfter = 4 * time.Second

// MarkDown has the reports of a live session say since when nothing came, and whether the engine is heard.
func MarkDown(reports []engine.Report, silent time.Duration) {
	for i := range reports {
		r := &reports[i]
		r.Silent = silent
		switch {
		case silent >= silentAfter:
			r.Down = Silent
		case r.Hung:
			r.Down = Hung
		}
	}
}

// WhyEnded says of an ended session why it is not heard.
func WhyEnded(gone bool) string {
	if gone {
		return Gone
	}
	return Ended
}
