package engine

import (
	"bytes"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
)

// cpu is the CPU time of this process so far, garbage collection included.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkGraphSteps takes kernels from frames to device time: decode, joins, steps, unions. ns/kernel and kernels/s are
// of CPU time of the whole process; memcpy-ratio is the time of a streaming copy of the same bytes over that.
func BenchmarkGraphSteps(b *testing.B) {
	frames, kernels, size := shimscript.GraphSteps(2000)
	parsed := make([]wire.Frame, 0, len(frames))
	var hello wire.Hello
	for _, f := range frames {
		r := wire.NewReader(bytes.NewReader(f))
		frame, err := r.Next()
		require.NoError(b, err)
		if frame.Kind == wire.KindHello {
			hello, err = wire.ParseHello(frame.Body)
			require.NoError(b, err)
			continue
		}
		parsed = append(parsed, frame)
	}
	from := bytes.Join(frames, nil)
	to := make([]byte, len(from))
	copy(to, from) // so that no page of it is touched for the first time later

	var copied, taken time.Duration
	var before, after runtime.MemStats
	var allocs uint64
	for b.Loop() {
		at := cpu(b)
		copy(to, from)
		copied += cpu(b) - at

		runtime.ReadMemStats(&before)
		at = cpu(b)
		p := newTestProcess(hello)
		p.set.totals = false
		for _, f := range parsed {
			if err := p.Frame(f); err != nil {
				b.Fatal(err)
			}
			takeSteps(p)
		}
		p.End(false)
		taken += cpu(b) - at
		runtime.ReadMemStats(&after)
		allocs += after.Mallocs - before.Mallocs
		if r := p.Reports()[0]; r.Became.InSteps != uint64(kernels) || r.Complete != 2000 {
			b.Fatalf("%d kernels in %d steps, want %d in 2000", r.Became.InSteps, r.Complete, kernels)
		}
	}
	n := float64(b.N) * float64(kernels)
	b.ReportMetric(float64(taken.Nanoseconds())/n, "cpu-ns/kernel")
	b.ReportMetric(n/taken.Seconds(), "kernels/cpu-s")
	b.ReportMetric(float64(copied.Nanoseconds())/n, "memcpy-ns/kernel")
	b.ReportMetric(float64(copied)/float64(taken), "memcpy-ratio")
	b.ReportMetric(float64(allocs)/n, "allocs/kernel")
	b.SetBytes(int64(size))
}
