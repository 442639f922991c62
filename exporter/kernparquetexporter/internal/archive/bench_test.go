package archive

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/parquet"
)

// BenchmarkAdd takes the chunks of a recording, each time of another session, and closes the files at the end: what the
// whole way from a body to a closed file costs, syncs included.
func BenchmarkAdd(b *testing.B) {
	r, err := krec.Read(filepath.Join("../../../../testdata/recordings/tp2.rank0.krec.zst"))
	require.NoError(b, err)
	rank := chunktest.Ranks(r, "run", 0)[0]
	o := options(NewDirectory(b.TempDir()))
	o.Tables = parquet.Options{}
	a := openArchive(b, o)
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		rank.Session++
		var bodies [][]byte
		p := chunk.NewPacker(rank.Identity, func(s *chunk.Sealed) { bodies = append(bodies, append([]byte(nil), s.Body...)) })
		for i := range rank.Steps {
			require.NoError(b, p.Add(&rank.Steps[i]))
		}
		p.Cut()
		b.StartTimer()
		before := used(b)
		for _, body := range bodies {
			c, err := chunk.Unpack(body)
			require.NoError(b, err)
			require.NoError(b, a.Add([]Chunk{{body, c}}, noon))
		}
		cpu += used(b) - before
	}
	before := used(b)
	files, err := a.Flush(b.Context())
	require.NoError(b, err)
	cpu += used(b) - before
	n := float64(a.Counts().Rows.Kernels)
	b.ReportMetric(float64(cpu.Nanoseconds())/n, "cpu-ns/kernel")
	b.ReportMetric(float64(files[0].Bytes)/n, "B/kernel")
}

// used is the CPU time of this process.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
