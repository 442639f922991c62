//go:build chain

package chain_test

import (
	"strings"

	"github.com/kernhes/kernhes/internal/krec"
)

// stages say to which stage the time of a function goes, by its name; the first that fits.
var stages = []struct{ part, stage string }{
	{"klauspost/compress", "zstd"},
	{"internal/parquet", "Parquet"}, {"parquet-go", "Parquet"},
	{"kernparquetexporter", "archive, journal"}, {"crc32", "archive, journal"},
	{"internal/chunk.(*Packer", "chunks: pack"}, {"internal/chunk.append", "chunks: pack"}, {"internal/chunk.putUint", "chunks: pack"},
	{"internal/chunk", "chunks: unpack"},
	{"internal/device", "device time"}, {"internal/span", "device time"},
	{"internal/cupti", "joins"}, {"internal/step", "steps"}, {"internal/ranges", "ranges"},
	{"internal/wire", "frames"}, {"internal/server", "session"}, {"internal/session", "session"},
	{"internal/engine", "engine"}, {"kernhesreceiver", "receiver"},
	{"runtime.memmove", "memmove"}, {"runtime.memclr", "garbage collection, allocation"},
	{"syscall", "system calls"}, {"runtime.map", "maps"}, {"runtime/internal/maps", "maps"}, {"internal/runtime/maps", "maps"}, {"aeshash", "maps"},
	{"slices", "sorting"},
	{"runtime", "garbage collection, allocation"},
}

func stageOf(function string) string {
	for _, s := range stages {
		if strings.Contains(function, s.part) {
			return s.stage
		}
	}
	return "others"
}

// graphOnly leaves the launches of graphs and their kernels.
func graphOnly(_ int, r *krec.Recording) { keep(r, true) }

// eagerOnly leaves single launches and their kernels.
func eagerOnly(_ int, r *krec.Recording) { keep(r, false) }

// keep leaves steps that launch graphs, or those that don't, and what is outside steps only in the latter. Captures stay.
func keep(r *krec.Recording, graphs bool) {
	captured := map[uint32]bool{}
	for _, f := range r.Frames {
		if f, ok := f.(*krec.Captured); ok {
			captured[f.Correlation] = true
		}
	}
	gone := map[uint32]bool{} // launches
	var out []krec.Frame
	// Of each thread, where its open step began in out, and whether it has launched a graph.
	begin := map[uint32]int{}
	has := map[uint32]bool{}
	for _, f := range r.Frames {
		out = append(out, f)
		switch f := f.(type) {
		case *krec.Push:
			if f.Domain == 0 && strings.HasPrefix(f.Text, "step:") {
				begin[f.Thread], has[f.Thread] = len(out)-1, false
			}
		case *krec.Launch:
			if captured[f.Correlation] {
				continue
			}
			if f.Graph() {
				has[f.Thread] = true
			}
			if _, in := begin[f.Thread]; f.Graph() != graphs && !in {
				gone[f.Correlation] = true
				out = out[:len(out)-1]
			}
		case *krec.Pop:
			at, in := begin[f.Thread]
			if f.Domain != 0 || f.Depth != 0 || !in {
				continue
			}
			delete(begin, f.Thread)
			if has[f.Thread] != graphs {
				kept := out[:at]
				for _, f := range out[at:] {
					switch f := f.(type) {
					case *krec.Launch:
						gone[f.Correlation] = true
					case *krec.Push, *krec.Pop:
					default:
						kept = append(kept, f)
					}
				}
				out = kept
			}
		case *krec.Raw:
			var records []krec.Record
			for _, one := range f.Records {
				if !gone[one.Correlation()] && one.Kind() == krec.KindKernel {
					records = append(records, one)
				}
			}
			f.Records = records
		}
	}
	r.Frames = out
}

// newShapes gives each launch a grid of its own, so that no step has a shape that was seen before.
func newShapes(_ int, r *krec.Recording) {
	for _, f := range r.Frames {
		if raw, ok := f.(*krec.Raw); ok {
			for _, one := range raw.Records {
				if one.Kind() == krec.KindKernel {
					one.SetShape([3]uint32{one.Correlation(), 1, 1}, one.Block())
				}
			}
		}
	}
}
