package kernhesreceiver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/oracle"
	"github.com/kernhes/kernhes/internal/wire"
)

// playPacked gives frames to a process that packs its steps, and returns the chunks.
func playPacked(t *testing.T, frames [][]byte) (p *process, chunks []*chunk.Chunk) {
	t.Helper()
	r := wire.NewReader(bytes.NewReader(bytes.Join(frames, nil)))
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			return p, chunks
		}
		require.NoError(t, err)
		if f.Kind == wire.KindHello {
			h, err := wire.ParseHello(f.Body)
			require.NoError(t, err)
			p = newEngines(zap.NewNop(), createDefaultConfig().(*Config), true, nil, &said{})(h).(*process)
			continue
		}
		before := p.acknowledgeable()
		require.NoError(t, p.frame(f))
		require.GreaterOrEqual(t, p.acknowledgeable(), before)
		if f.Kind == wire.KindBye {
			p.end(false)
		}
		for _, parcel := range p.takeParcels() {
			record := parcel.logs.ResourceLogs().At(0).ScopeLogs().At(0).LogRecords().At(0)
			body, err := chunk.Body(record)
			require.NoError(t, err)
			require.LessOrEqual(t, len(body), chunk.MaxBytes)
			c, err := chunk.Unpack(body)
			require.NoError(t, err)
			chunks = append(chunks, c)
		}
		p.settled()
	}
}

// TestEveryKernelIsInAChunk compares what is packed with the recording, kernel by kernel.
func TestEveryKernelIsInAChunk(t *testing.T) {
	for _, name := range recordingNames() {
		recording, err := krec.Read(filepath.Join(recordings, name+".krec.zst"))
		require.NoError(t, err)
		work := oracle.Do(recording, oracle.NCCL)
		var want []string
		for _, k := range work.Kernels {
			want = append(want, fmt.Sprintf("%d %d %s %d %t %q %q", k.Start, k.End-k.Start, k.Name, k.Stream, k.Comm, k.StepText, k.Call))
		}
		slices.Sort(want)
		for how, options := range deliveries {
			t.Run(name+"/"+how, func(t *testing.T) {
				p, chunks := playPacked(t, fakeshim.Frames(recording, options))
				books(t, p)
				var got []string
				steps, copies := 0, 0
				for _, c := range chunks {
					window, windowed := int64(0), false
					for i := range c.Steps {
						s := &c.Steps[i]
						text := s.Text
						if s.Outside {
							text = ""
						} else {
							if windowed {
								require.Equal(t, window, chunk.Window(s.Seq), "a chunk holds one window")
							}
							window, windowed = chunk.Window(s.Seq), true
							if s.Last {
								steps++
							}
						}
						launch := 0
						for k := range s.Starts {
							pos := &s.Shape.Positions[k]
							if k > 0 && pos.Launch != s.Shape.Positions[k-1].Launch {
								launch++
							}
							require.NotZero(t, s.Launches[launch].Correlation)
							got = append(got, fmt.Sprintf("%d %d %s %d %t %q %q", s.Starts[k], s.Durs[k], pos.Name, pos.Stream, pos.Class == chunk.Comm, text, pos.Call))
						}
					}
					copies += len(c.Copies)
				}
				slices.SortFunc(got, cmp.Compare)
				require.Equal(t, len(want), len(got))
				for i := range want {
					require.Equal(t, want[i], got[i]) // one by one: what differs is to be read
				}
				require.Equal(t, work.StepRanges, steps)
				n := 0
				for _, k := range work.Devices[0].Copies {
					n += k
				}
				require.Equal(t, n, copies)
				require.Equal(t, p.got, p.acknowledgeable())
			})
		}
	}
}
