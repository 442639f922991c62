package engine

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/groups"
)

// copySteps reads a recording on its own: for each copy, by correlation id, the seq of the step that both the launch before it
// and the launch after it are in. Copies without such a step are left out.
func copySteps(t *testing.T, r *krec.Recording) map[uint32]int64 {
	t.Helper()
	seqs := regexp.MustCompile(`^step:.*\bseq=(\d+)`)
	open := map[uint32][]string{} // by thread
	type launch struct {
		id   uint32
		step string
	}
	var launches []launch
	var copies []uint32
	for _, f := range r.Frames {
		switch f := f.(type) {
		case *krec.Push:
			if f.Domain == 0 {
				open[f.Thread] = append(open[f.Thread], f.Text)
			}
		case *krec.Pop:
			if n := len(open[f.Thread]); f.Domain == 0 && n > 0 {
				open[f.Thread] = open[f.Thread][:n-1]
			}
		case *krec.Launch:
			step := ""
			for _, text := range open[f.Thread] {
				if strings.HasPrefix(text, "step:") {
					step = text
				}
			}
			launches = append(launches, launch{f.Correlation, step})
		case *krec.Raw:
			for _, record := range f.Records {
				if record.Kind() != krec.KindKernel {
					copies = append(copies, record.Correlation())
				}
			}
		}
	}
	slices.SortFunc(launches, func(a, b launch) int { return int(a.id) - int(b.id) })
	found := map[uint32]int64{}
	for _, id := range copies {
		i, same := slices.BinarySearchFunc(launches, id, func(l launch, id uint32) int { return int(l.id) - int(id) })
		if !same && (i == 0 || i == len(launches) || launches[i-1].step != launches[i].step) {
			continue
		}
		if m := seqs.FindStringSubmatch(launches[i].step); m != nil {
			seq, err := strconv.ParseInt(m[1], 10, 64)
			require.NoError(t, err)
			found[id] = seq
		}
	}
	return found
}

// copied sends a copy record.
func (s *script) copied(c uint32, node, start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(us(start), us(end), node, 4096))
	copy(b[32:], u32(c))
	b[42] = wire.CopyMemcpy
	s.Frame(wire.KindCopies, b)
}

// placed are the copies that were packed, by correlation id: their seq, or -1.
func placed(t *testing.T, s *script) map[uint32]int64 {
	t.Helper()
	all := map[uint32]int64{}
	for _, one := range s.p.TakeChunks() {
		c, err := chunk.Unpack(one.Body)
		require.NoError(t, err)
		for i := range c.Copies {
			one := &c.Copies[i]
			all[one.Correlation] = -1
			if one.InStep {
				all[one.Correlation] = one.Seq
			}
		}
	}
	return all
}

// A copy between two launches of a step is in that step, whenever its record comes; one between a launch of a step and one of
// another, or of none, is in none that can be known.
func TestCopiesGetTheStepOfTheLaunchesAroundThem(t *testing.T) {
	s, _ := limitedScript(t, true, func(*Settings) {})
	s.Launch(0, 9)
	s.Ran(9, 1, 2)
	s.Push(10, "step:decode seq=67,tokens=1")
	s.Launch(11, 11)
	s.copied(12, 0, 12, 13) // before the launch after it is known
	s.Launch(14, 14)
	s.Pop(15)
	s.copied(10, 0, 10, 11) // between a launch of no step and one of 67
	s.Ran(11, 20, 30)
	s.Ran(14, 30, 40)
	s.Push(50, "step:decode seq=68,tokens=1")
	s.Launch(51, 20)
	s.Launch(52, 25)
	s.Pop(53)
	s.copied(16, 0, 45, 46) // between 67 and 68
	s.Flushed(60)           // 68 is open
	s.copied(22, 0, 61, 62)
	s.Ran(20, 60, 70)
	s.Ran(25, 70, 80)
	s.Flushed(100)
	s.copied(23, 0, 62, 63) // after its step is final
	s.copied(30, 0, 63, 64) // after all launches
	s.bye()
	booksHold(t, s.p)
	require.Equal(t, map[uint32]int64{10: -1, 12: 67, 16: -1, 22: 68, 23: 68, 30: -1}, placed(t, s))
}

// Copies that are nodes of a graph have the correlation id of its launch, of which a step may have just one.
func TestCopiesOfReplaysGetTheirStep(t *testing.T) {
	s, _ := limitedScript(t, true, func(*Settings) {})
	const kernel, copied = 4<<32 | 1, 4<<32 | 2
	for i := range uint32(3) {
		at := uint64(i) * 100
		s.Push(at, "step:decode seq="+strconv.Itoa(67+int(i))+",tokens=1")
		s.GraphLaunch(at+1, 100+10*i)
		s.Pop(at + 2)
		s.RanNode(100+10*i, kernel, at+10, at+20)
		s.copied(100+10*i, copied, at+20, at+21)
		s.Flushed(at + 50)
	}
	s.GraphLaunch(300, 200) // in no step
	s.copied(200, copied, 310, 311)
	s.RanNode(200, kernel, 305, 309)
	s.Flushed(400)
	s.bye()
	booksHold(t, s.p)
	require.Equal(t, map[uint32]int64{100: 67, 110: 68, 120: 69, 200: -1}, placed(t, s))
}

// What is held is not acknowledged, and is bounded.
func TestHeldCopiesAreNotAcknowledgedAndBounded(t *testing.T) {
	s, _ := limitedScript(t, true, func(*Settings) {})
	s.Push(10, "step:decode seq=67,tokens=1")
	before := s.Number
	s.Launch(11, 11)
	s.Launch(12, 100)
	s.copied(12, 0, 12, 13)
	s.Flushed(60)
	require.LessOrEqual(t, s.p.Acknowledgeable(), before)
	for range maxHeldCopies + 10 {
		s.copied(12, 0, 12, 13)
	}
	require.LessOrEqual(t, len(s.p.devices[0].packed.held.copies), maxHeldCopies)
	s.Ran(11, 20, 30)
	s.Ran(100, 30, 40)
	s.Pop(41)
	s.Flushed(100)
	s.bye()
	booksHold(t, s.p)
	require.Zero(t, s.p.Acknowledgeable(), "nobody has taken the chunks")
	takeChunks(s.p)
	require.Equal(t, s.Number, s.p.Acknowledgeable())
	require.Empty(t, s.p.devices[0].packed.held.copies)
}

// Groups come from the step's text before the setting; kernels that compute have none.
func TestGroupsComeFromTheTextOrTheSetting(t *testing.T) {
	s, _ := limitedScript(t, true, func(c *Settings) {
		var err error
		c.Groups, err = groups.Of(map[string]int64{"tp": 2, "dp": 2})
		require.NoError(t, err)
	})
	s.p.who.evidence["rank"] = "3"
	s.Text(1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
	s.Text(2, "gemm")
	for i, text := range []string{"step:decode seq=1,group=pair1", "step:decode seq=2"} {
		at, c := uint64(100*i), uint32(10*i+1)
		s.Push(at, text)
		s.Launch(at+1, c)
		s.Launch(at+2, c+1)
		s.Pop(at + 3)
		s.Named(c, 1, us(at+10), us(at+20))
		s.Named(c+1, 2, us(at+20), us(at+30))
		s.Flushed(at + 50)
	}
	s.bye()
	var got []string
	for _, one := range s.p.TakeChunks() {
		c, err := chunk.Unpack(one.Body)
		require.NoError(t, err)
		for _, one := range c.Steps {
			got = append(got, "step "+one.Group)
			for _, at := range one.Shape.Positions {
				got = append(got, at.Group+" "+chunk.GroupSources[at.GroupBy])
			}
		}
	}
	require.Equal(t, []string{"step pair1", "pair1 text", " ", "step ", "tp:1 setting", " "}, got)
}

// The line of a step counts the copies that were launched in it, by the launches around them.
func TestStepTotalsCountCopies(t *testing.T) {
	s, _ := limitedScript(t, false, func(set *Settings) { set.Lines = true })
	s.Push(10, "step:decode seq=67,tokens=1")
	s.Launch(11, 11)
	s.copied(12, 0, 12, 13) // before the launch after it is known
	s.copied(13, 0, 13, 14)
	s.Launch(15, 15)
	s.Pop(16)
	s.Ran(11, 20, 30)
	s.Ran(15, 30, 40)
	s.Push(50, "step:decode seq=68,tokens=1")
	s.Launch(51, 20)
	s.copied(22, 0, 53, 54)
	s.Launch(52, 25)
	s.Pop(53)
	s.copied(17, 0, 45, 46) // between 67 and 68
	s.Ran(20, 60, 70)
	s.Ran(25, 70, 80)
	s.Flushed(200)
	s.copied(23, 0, 81, 82) // after its step is final
	s.bye()
	got := map[uint64]uint64{}
	for _, line := range s.lines {
		got[line.Seq] = line.Copies
	}
	require.Equal(t, map[uint64]uint64{67: 2, 68: 1}, got)
	require.Empty(t, s.p.devices[0].stepCopies.steps)
}
