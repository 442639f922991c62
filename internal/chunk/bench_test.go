package chunk_test

import (
	"testing"

	"github.com/kernhes/kernhes/internal/chunk"
)

func BenchmarkPack(b *testing.B) {
	r := recorded(b, "tp2.rank0")
	bytes, kernels := 0, 0
	p := chunk.NewPacker(r.Identity, func(s *chunk.Sealed) { bytes += len(s.Body); kernels += s.Kernels })
	b.ReportAllocs()
	for b.Loop() {
		for i := range r.Steps {
			if err := p.Add(&r.Steps[i]); err != nil {
				b.Fatal(err)
			}
		}
		p.Cut()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(kernels), "ns/kernel")
	b.ReportMetric(float64(bytes)/float64(kernels), "B/kernel")
}

func BenchmarkUnpack(b *testing.B) {
	all := bodies(b)
	kernels := 0
	var u chunk.Unpacker
	b.ReportAllocs()
	for b.Loop() {
		for _, body := range all {
			c, err := u.Unpack(body)
			if err != nil {
				b.Fatal(err)
			}
			kernels += c.Rows()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(kernels), "ns/kernel")
}
