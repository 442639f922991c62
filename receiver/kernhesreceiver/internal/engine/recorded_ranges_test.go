package engine

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
)

// onlyRanges is a recording as a shim tells it that traces nothing.
func onlyRanges(r *krec.Recording) *krec.Recording {
	kept := &krec.Recording{}
	for _, f := range r.Frames {
		switch f.(type) {
		case *krec.Meta, *krec.Domain, *krec.Push, *krec.Pop:
			kept.Frames = append(kept.Frames, f)
		}
	}
	return kept
}

// stepsOf are push and pop of each step's range in a recording, by its text and push.
func stepsOf(r *krec.Recording) map[string]chunk.Issued {
	type stack struct{ thread, domain uint32 }
	open, steps := map[stack][]*krec.Push{}, map[string]chunk.Issued{}
	for _, f := range r.Frames {
		switch f := f.(type) {
		case *krec.Push:
			k := stack{f.Thread, f.Domain}
			open[k] = append(open[k], f)
		case *krec.Pop:
			k := stack{f.Thread, f.Domain}
			push := open[k][len(open[k])-1]
			open[k] = open[k][:len(open[k])-1]
			if f.Domain == 0 && strings.HasPrefix(push.Text, "step:") {
				steps[push.Text] = chunk.Issued{Push: push.Time, Pop: f.Time, Thread: push.Thread, Level: 1}
			}
		}
	}
	return steps
}

// playIn plays frames into an account whose engine says that mode.
func playIn(t *testing.T, mode string, frames [][]byte) (p *Process, steps []chunk.Step) {
	t.Helper()
	r := wire.NewReader(bytes.NewReader(bytes.Join(frames, nil)))
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if f.Kind == wire.KindHello {
			h, err := wire.ParseHello(f.Body)
			require.NoError(t, err)
			h.Info["mode"] = mode
			p = begin(testSettings(archived), h)
			continue
		}
		require.NoError(t, p.Frame(f))
	}
	p.End(false)
	for _, one := range takeChunks(p) {
		c, err := chunk.Unpack(one.Body)
		require.NoError(t, err)
		for _, s := range c.Steps {
			if !s.Outside && s.Last {
				steps = append(steps, s)
			}
		}
	}
	return p, steps
}

// TestRecordingsHaveAllStepRangesTracedOrNot: with tracing off each step's range is in the archive and the metrics; with tracing on
// the ranges are the same, and the figures of the device are what the other tests hold to the oracle.
func TestRecordingsHaveAllStepRangesTracedOrNot(t *testing.T) {
	for _, name := range []string{"tp2.rank0", "tp2.rank1", "solo.rank0"} {
		t.Run(name, func(t *testing.T) {
			whole, err := krec.Read(filepath.Join(recordings, name+".krec.zst"))
			require.NoError(t, err)
			want := stepsOf(whole)
			require.NotEmpty(t, want)
			var ns uint64
			for _, i := range want {
				ns += i.Pop - i.Push
			}
			for mode, r := range map[string]*krec.Recording{"off": onlyRanges(whole), "software": whole} {
				p, steps := playIn(t, mode, fakeshim.Frames(r, fakeshim.Options{}))
				require.Len(t, steps, len(want), mode)
				for _, s := range steps {
					require.Equal(t, want[s.Text], s.Issued, "%s: %s", mode, s.Text)
					require.Equal(t, mode == "off", s.Untraced, s.Text)
					require.Equal(t, mode != "off", s.Complete, s.Text)
					require.Equal(t, mode == "off", s.Compute == 0, s.Text)
				}
				report := p.Reports()[0]
				var pushed, ranges, sum, followed uint64
				for _, s := range report.Pace {
					pushed, ranges, sum, followed = pushed+s.Pushed, ranges+s.Range.N, sum+s.Range.NS, followed+s.Interval.N+s.Arrivals
				}
				require.EqualValues(t, len(want), pushed, mode)
				require.EqualValues(t, len(want), ranges, mode)
				require.Equal(t, ns, sum, mode)
				require.EqualValues(t, len(want)-1, followed, "%s: one thread pushes them, and nothing follows the last", mode)
				require.Len(t, report.Places, 1, mode)
				require.EqualValues(t, 1, report.Places[0].Depth)
				if mode == "off" {
					require.EqualValues(t, len(want), report.Untraced)
					require.Zero(t, report.Complete+report.Kernels)
				} else {
					require.EqualValues(t, len(want), report.Complete)
					require.Zero(t, report.Untraced)
				}
			}
		})
	}
}
