package engine

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/wire"
)

// playPacked gives frames to a process that packs its steps, and returns the chunks.
func playPacked(t *testing.T, frames [][]byte) (p *Process, chunks []*chunk.Chunk) {
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
			p = begin(testSettings(archived), h)
			continue
		}
		before := p.Acknowledgeable()
		require.NoError(t, p.Frame(f))
		require.GreaterOrEqual(t, p.Acknowledgeable(), before)
		if f.Kind == wire.KindBye {
			p.End(false)
		}
		for _, one := range takeChunks(p) {
			require.Equal(t, p.info["mode"], one.Source.Mode)
			require.LessOrEqual(t, len(one.Body), chunk.MaxBytes)
			c, err := chunk.Unpack(one.Body)
			require.NoError(t, err)
			chunks = append(chunks, c)
		}
	}
}

// A packedKernel is what a chunk says of a kernel, to compare.
type packedKernel struct {
	start, dur       uint64
	name, text, call string
	stream           uint32
	comm             bool
}

func (k packedKernel) compare(o packedKernel) int {
	return cmp.Or(cmp.Compare(k.start, o.start), cmp.Compare(k.dur, o.dur), cmp.Compare(k.stream, o.stream), cmp.Compare(k.name, o.name),
		cmp.Compare(k.text, o.text), cmp.Compare(k.call, o.call))
}

// TestEveryKernelIsInAChunk compares what is packed with the recording, kernel by kernel.
func TestEveryKernelIsInAChunk(t *testing.T) {
	for _, name := range recordingNames() {
		recording, work := workOut(t, name).Recording, workOut(t, name).work
		var want []packedKernel
		for _, k := range work.Kernels {
			want = append(want, packedKernel{uint64(k.Start), uint64(k.End - k.Start), k.Name, k.StepText, k.Call, k.Stream, k.Comm})
		}
		slices.SortFunc(want, packedKernel.compare)
		stepOf := copySteps(t, recording)
		for how, options := range deliveries {
			t.Run(name+"/"+how, func(t *testing.T) {
				p, chunks := playPacked(t, fakeshim.Frames(recording, options))
				booksHold(t, p)
				var got []packedKernel
				steps, copies := 0, 0
				placed := map[uint32]bool{}
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
							if s.Launches[launch].Correlation == 0 {
								t.Fatalf("a kernel of %q is of no launch", text)
							}
							got = append(got, packedKernel{s.Starts[k], s.Durs[k], pos.Name, text, pos.Call, pos.Stream, pos.Class == chunk.Comm})
						}
					}
					copies += len(c.Copies)
					for i := range c.Copies {
						if one := &c.Copies[i]; one.InStep {
							require.Equal(t, stepOf[one.Correlation], one.Seq)
							placed[one.Correlation] = true
						}
					}
				}
				slices.SortFunc(got, packedKernel.compare)
				require.Equal(t, len(want), len(got))
				for i := range want {
					if want[i] != got[i] { // one by one: what differs is to be read
						require.Equal(t, want[i], got[i])
					}
				}
				require.Equal(t, work.StepRanges, steps)
				n := 0
				for _, k := range work.Devices[0].Copies {
					n += k
				}
				require.Equal(t, n, copies)
				require.Len(t, placed, len(stepOf))
				require.Equal(t, p.lastFrame, p.Acknowledgeable())
			})
		}
	}
}

// Steps that fill a window before a second is over are acknowledged as their chunks are taken, without a pause between them.
func TestSteadyStepsAreAcknowledged(t *testing.T) {
	s := newScript(t)
	s.p = begin(testSettings(archived),
		wire.Hello{Version: 1, Session: 0xabc, Info: map[string]string{"run": "r", "rank": "0"}})
	const frames = 4 // a step
	for i := uint64(0); i < 2000; i++ {
		at := i * 10_000
		s.Push(at, fmt.Sprintf("step:decode seq=%d,tokens=1", i))
		s.Launch(at+1, uint32(i+1))
		s.Pop(at + 2)
		s.Ran(uint32(i+1), at+10, at+30)
		if i%10 == 9 {
			s.Flushed(at + 100)
			takeChunks(s.p)
			// What is not acknowledged: an open chunk of 64 steps, and the steps since the last flush.
			require.LessOrEqual(t, s.Number-s.p.Acknowledgeable(), uint64(frames*(64+20)), "frames after step %d", i)
		}
	}
}

// TestAStepWithoutKernelsStandsWhereItsRangeBegan: no record of it says a time, and a start of 0 would have the archive begin in 1970.
func TestAStepWithoutKernelsStandsWhereItsRangeBegan(t *testing.T) {
	s, _ := limitedScript(t, true, func(s *Settings) { s.Lines = true })
	s.oneStep(0, 1)
	s.Push(100, "step:decode seq=7,tokens=1")
	s.Launch(101, 2)
	s.Pop(102)
	s.Kernel(2, 0, 0, 0)
	s.Push(200, "step:decode seq=8,tokens=1")
	s.Launch(201, 3) // without a record
	s.Pop(202)
	s.oneStep(300, 4)
	s.bye()
	times := map[string][2]uint64{}
	for _, one := range s.p.TakeChunks() {
		c, err := chunk.Unpack(one.Body)
		require.NoError(t, err)
		for _, one := range c.Steps {
			times[one.Text+" "+one.Reason] = [2]uint64{one.Start, one.End}
		}
	}
	require.Equal(t, [2]uint64{us(100), us(100)}, times["step:decode seq=7,tokens=1 invalid_records"])
	require.Equal(t, [2]uint64{us(200), us(200)}, times["step:decode seq=8,tokens=1 missing_records"])
	for _, line := range s.lines {
		require.GreaterOrEqual(t, line.StartNS, us(0), line.Text)
	}
	require.EqualValues(t, us(330), s.report().LastStepNS, "where kernels ended")
}
