package enginetest

import (
	"time"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
)

// Settings are those of a receiver that is not configured, without traces, archive or dump.
func Settings() engine.Settings {
	return engine.Settings{
		StepTimeout: 10 * time.Second, Patterns: ranges.Default, CallDomains: []string{""},
		BatchEdges: []int64{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768},
		KVEdges:    []int64{1024, 4096, 16384, 65536, 131072, 262144, 1048576},
		MaxStrings: 65_536, MaxRanges: 65_536, MaxShapes: 4096, MaxSeries: 2000, MaxSessionBytes: 256 << 20,
		Rules: &rules.Files{}, Starts: identity.NewStarts(),
	}
}
