package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
)

// A fleet is engine processes of one collector.
type fleet struct {
	t      *testing.T
	starts *identity.Starts
	begin  func(wire.Hello) *Process
	next   uint64 // session
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, starts: identity.NewStarts(), next: 0x1000}
	set := testSettings(archived)
	set.Lines = true
	set.Starts = f.starts
	f.begin = NewEngines(set).Begin
	return f
}

// process is a process that is connected, by "key", "value", …
func (f *fleet) process(pairs ...string) *script {
	f.next++
	info := map[string]string{"host": "gpu07", "boot_id": "b", "leader.pid": "42", "leader.start": "9"}
	for i := 0; i < len(pairs); i += 2 {
		info[pairs[i]] = pairs[i+1]
	}
	f.starts.Arrive(f.next, info)
	return scriptFor(f.t, f.begin(wire.Hello{Session: f.next, Info: info}))
}

// unpacked is what an outbound chunk holds.
func unpacked(t *testing.T, one OutboundChunk) *chunk.Chunk {
	t.Helper()
	c, err := chunk.Unpack(one.Body)
	require.NoError(t, err)
	return c
}

// infoBody is the body of INFO.
func infoBody(pairs ...string) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		b = le.AppendUint16(b, uint16(len(pairs[i])))
		b = le.AppendUint16(b, 0)
		b = le.AppendUint32(b, uint32(len(pairs[i+1])))
		b = append(append(b, pairs[i]...), pairs[i+1]...)
	}
	return b
}

// runRanks are the run and the ranks of the lines so far.
func (s *script) runRanks() (run string, ranks []int64) {
	for _, l := range s.lines {
		run = l.Run
		ranks = append(ranks, l.Rank)
	}
	return run, ranks
}

// TestNothingIsExportedBeforeTheRunIsSettled sends kernels outside any step and copies first.
func TestNothingIsExportedBeforeTheRunIsSettled(t *testing.T) {
	s := newFleet(t).process("run", "bar", "rank", "3")
	s.Launch(1, 1)
	s.OnDevice(0, 1, 2, 3)
	s.Flushed(2_000_000)
	s.p.Cut()
	assert.Empty(t, s.p.TakeChunks())
	assert.True(t, s.p.Reports()[0].Unplaced)
	assert.Less(t, s.p.Acknowledgeable(), s.p.Received(), "the shim keeps what is not exported")
	s.Step(2_000_100, "step:decode seq=1", 0)
	assert.False(t, s.p.Reports()[0].Unplaced)
	s.p.Cut()
	chunks := s.p.TakeChunks()
	require.NotEmpty(t, chunks)
	for _, one := range chunks {
		c := unpacked(t, one)
		assert.Equal(t, "bar", c.Run)
		assert.EqualValues(t, 3, c.Rank)
	}
}

// TestTheWaitForEvidenceIsBounded plays a process without steps.
func TestTheWaitForEvidenceIsBounded(t *testing.T) {
	s := newFleet(t).process("run", "bar", "rank", "3")
	s.Launch(1, 1)
	s.OnDevice(0, 1, 2, 3)
	s.Flushed(29_000_000)
	assert.True(t, s.p.Reports()[0].Unplaced)
	s.Flushed(31_000_000)
	r := s.p.Reports()[0]
	assert.False(t, r.Unplaced)
	assert.EqualValues(t, 3, r.Rank)
	// Steps that come later on another device have the rank.
	s.Step(40_000_000, "step:decode seq=1", 1)
	_, ranks := s.runRanks()
	assert.Equal(t, []int64{3}, ranks)
	reports := s.p.Reports()
	assert.Equal(t, []int64{NoRank, 3}, []int64{reports[0].Rank, reports[1].Rank})
}

// TestAStrayKernelDoesNotShiftRanks has one kernel on device 0, before or after steps on device 1.
func TestAStrayKernelDoesNotShiftRanks(t *testing.T) {
	for _, first := range []bool{true, false} {
		s := newFleet(t).process("run", "bar", "rank", "1")
		stray := func(at uint64) {
			s.Launch(at, uint32(at))
			s.OnDevice(0, uint32(at), at+1, at+2)
			s.Flushed(at + 100)
		}
		if first {
			stray(1)
		}
		s.Step(1000, "step:decode seq=1", 1)
		if !first {
			stray(200_000)
		}
		s.Step(300_000, "step:decode seq=2", 1)
		_, ranks := s.runRanks()
		assert.Equal(t, []int64{1, 1}, ranks)
		reports := s.p.Reports()
		assert.Equal(t, []int64{NoRank, 1}, []int64{reports[0].Rank, reports[1].Rank})
	}
}

// TestAProcessOfTwoDevices has steps on both: the second is the next rank.
func TestAProcessOfTwoDevices(t *testing.T) {
	s := newFleet(t).process("run", "bar", "rank", "4")
	s.Step(1, "step:decode seq=1", 2)
	s.Step(200_000, "step:decode seq=1", 5)
	s.Step(400_000, "step:decode seq=2", 2)
	_, ranks := s.runRanks()
	assert.Equal(t, []int64{4, 5, 4}, ranks)
	// One thread gave one seq twice.
	assert.Equal(t, uint64(1), s.lines[0].Seq)
	assert.Equal(t, uint64(2305843009213693952+281474976710656+1), s.lines[1].Seq)
}

// TestAThreadForEachDevice gives steps of two devices the same seq: they pair.
func TestAThreadForEachDevice(t *testing.T) {
	s := newFleet(t).process("run", "bar", "rank", "4")
	for i, thread := range []uint32{1, 2} {
		at := uint64(200_000*i + 1)
		text := "step:decode seq=1"
		s.Event(wire.EventPush, thread, at, u32(0, 0, uint32(len(text)), wire.DepthUnknown), text)
		s.Event(wire.EventLaunch, thread, at+1, u32(uint32(at+1), 0), "")
		s.Event(wire.EventPop, thread, at+2, u32(0, wire.DepthUnknown), "")
		s.OnDevice(uint16(i), uint32(at+1), at+3, at+8)
		s.Flushed(at + 100_000)
	}
	_, ranks := s.runRanks()
	assert.Equal(t, []int64{4, 5}, ranks)
	assert.Equal(t, []uint64{1, 1}, []uint64{s.lines[0].Seq, s.lines[1].Seq})
}

// TestTwoProcessesThatClaimOneRank live at once: each has a run, and all say so.
func TestTwoProcessesThatClaimOneRank(t *testing.T) {
	f := newFleet(t)
	a, b := f.process("run", "bar", "rank", "0"), f.process("run", "bar", "rank", "0")
	a.Step(1, "step:decode seq=1", 0)
	b.Step(1, "step:decode seq=1", 0)
	first, _ := a.runRanks()
	second, _ := b.runRanks()
	assert.Equal(t, "bar", first)
	assert.NotEqual(t, "bar", second)
	reports := []Report{a.p.Reports()[0], b.p.Reports()[0]}
	assert.Equal(t, reports[0].ClaimRank(), reports[1].ClaimRank())
	assert.Contains(t, b.p.chunkCounts(b.p.devices[0]), chunk.Count{Name: "rank_conflicts", Value: 1})
	assert.Contains(t, reports[1].RunFrom, "used before")
}

// TestWorkersOfOneTask inherited a task's rank, or a pod's: their GPUs say which is which.
func TestWorkersOfOneTask(t *testing.T) {
	for name, launcher := range map[string][]string{
		"srun with one task":         {"env.SLURM_JOB_ID", "7", "env.SLURM_STEP_ID", "0", "env.SLURM_STEP_NUM_TASKS", "1", "env.SLURM_PROCID", "0"},
		"srun with a task a node":    {"env.SLURM_JOB_ID", "7", "env.SLURM_STEP_ID", "0", "env.SLURM_STEP_NUM_TASKS", "2", "env.SLURM_PROCID", "0"},
		"Kubeflow":                   {"env.RANK", "0", "env.WORLD_SIZE", "2"},
		"a torchrun worker's worker": {"env.RANK", "0", "env.WORLD_SIZE", "2", "env.LOCAL_RANK", "0"},
	} {
		f := newFleet(t)
		workers := make([]*script, 8)
		for i := range workers {
			workers[i] = f.process(append(launcher, "visible_devices", "0,1,2,3,4,5,6,7")...)
		}
		runs := map[string]bool{}
		for i, w := range workers {
			w.Step(1, "step:decode seq=1", uint16(i))
			run, ranks := w.runRanks()
			assert.Equal(t, []int64{int64(i)}, ranks, name)
			runs[run] = true
		}
		assert.Len(t, runs, 1, name)
	}
}

// TestTorchelasticRestarts gives each restart a run.
func TestTorchelasticRestarts(t *testing.T) {
	f := newFleet(t)
	runs := map[string]bool{}
	for _, restart := range []string{"0", "1", "2"} {
		var start []string
		for _, rank := range []string{"0", "1"} {
			s := f.process("env.TORCHELASTIC_RUN_ID", "job", "env.TORCHELASTIC_RESTART_COUNT", restart, "env.MASTER_ADDR", "n0", "env.MASTER_PORT", "29500",
				"env.RANK", rank, "env.LOCAL_RANK", rank, "env.WORLD_SIZE", "2")
			s.Step(1, "step:decode seq=1", 0)
			run, ranks := s.runRanks()
			start = append(start, run)
			assert.Equal(t, rank, string(rune('0'+ranks[0])))
			f.starts.Leave(f.next)
		}
		assert.Equal(t, start[0], start[1])
		assert.False(t, runs[start[0]])
		runs[start[0]] = true
	}
}

// TestARankOfTheTextThatIsAnothers keeps the keys apart: the step pairs with no other.
func TestARankOfTheTextThatIsAnothers(t *testing.T) {
	f := newFleet(t)
	a, b := f.process("run", "bar", "rank", "0"), f.process("run", "bar", "rank", "1")
	a.Step(1, "step:decode seq=1,rank=0", 0)
	b.Step(1, "step:decode seq=1,rank=1", 0)
	b.Step(200_000, "step:decode seq=1,rank=0", 0)
	require.Len(t, b.lines, 2)
	assert.Equal(t, "bar", b.lines[1].Run)
	assert.True(t, b.lines[0].Pairs)
	assert.False(t, b.lines[1].Pairs)
	assert.GreaterOrEqual(t, b.lines[1].Seq, uint64(1<<62))
}

// TestARankWithAndWithoutText is one rank of one process: its numbers stay apart.
func TestARankWithAndWithoutText(t *testing.T) {
	s := newFleet(t).process("run", "bar", "rank", "0")
	s.Step(1, "step:decode seq=1,rank=0", 0)
	s.Step(200_000, "step:decode seq=1", 0)
	require.Len(t, s.lines, 2)
	assert.Equal(t, uint64(1), s.lines[0].Seq)
	assert.Equal(t, uint64(2305843009213693952+281474976710656+1), s.lines[1].Seq)
}

// TestASeqThatComesAgain is another occurrence, also where the receiver counts.
func TestASeqThatComesAgain(t *testing.T) {
	s := newFleet(t).process("run", "bar", "rank", "0")
	for i, text := range []string{"step:decode seq=2", "step:decode", "step:decode seq=2"} {
		s.Step(uint64(200_000*i+1), text, 0)
	}
	var seqs []uint64
	for _, l := range s.lines {
		assert.True(t, l.Pairs)
		seqs = append(seqs, l.Seq)
	}
	const repeated, occurrence = 2305843009213693952, 281474976710656
	assert.Equal(t, []uint64{2, repeated + occurrence + 2, repeated + 2*occurrence + 2}, seqs)
}

// TestAProcessWithoutRecordsClaimsNothing: a front end may have inherited the rank of a worker.
func TestAProcessWithoutRecordsClaimsNothing(t *testing.T) {
	f := newFleet(t)
	front := f.process("run", "bar", "rank", "0")
	front.Flushed(60_000_000)
	front.p.End(false)
	worker := f.process("run", "bar", "rank", "0")
	worker.Step(1, "step:decode seq=1", 0)
	run, _ := worker.runRanks()
	assert.Equal(t, "bar", run)
}

// TestAHelperOfAnEngineDoesNotSplitItsRun: a process runs kernels and no step on a worker's GPU. It lives on, or ends before.
func TestAHelperOfAnEngineDoesNotSplitItsRun(t *testing.T) {
	for _, ends := range []bool{false, true} {
		for _, order := range [][]string{{"1", "0", "2"}, {"0", "1", "2"}} {
			f := newFleet(t)
			workers := map[string]*script{}
			for _, rank := range order {
				workers[rank] = f.process("run", "bar", "rank", rank)
			}
			helper := f.process("run", "bar", "rank", "0")
			helper.Launch(1, 1)
			helper.OnDevice(0, 1, 2, 3)
			helper.Flushed(31_000_000)
			if ends {
				f.starts.Leave(f.next)
				helper.p.End(false)
			}
			require.Equal(t, "bar", helper.p.Reports()[0].Info["run"])
			assert.True(t, helper.p.Reports()[0].Guessed, "it is no rival of the worker")
			runs := map[string]bool{}
			for _, rank := range order {
				w := workers[rank]
				w.Step(1, "step:decode seq=1", 0)
				run, _ := w.runRanks()
				runs[run] = true
				assert.Equal(t, rank, string(rune('0'+w.lines[0].Rank)))
				assert.True(t, w.lines[0].Pairs)
			}
			assert.Len(t, runs, 1, "ends %v, order %v", ends, order)
			if !ends { // it does run a step after all, of a rank that is a worker's
				helper.Step(40_000_000, "step:decode seq=1", 0)
				require.Len(t, helper.lines, 1)
				assert.False(t, helper.lines[0].Pairs)
				assert.GreaterOrEqual(t, helper.lines[0].Seq, uint64(1<<62))
				assert.False(t, helper.p.Reports()[0].Guessed)
				assert.Contains(t, helper.p.chunkCounts(helper.p.devices[0]), chunk.Count{Name: "rank_conflicts", Value: 1})
			}
		}
	}
}

// TestAnEngineThatLoadsForLong is settled before its first step: its ranks are its own then, and those of its next start are not.
func TestAnEngineThatLoadsForLong(t *testing.T) {
	f := newFleet(t)
	runs := map[string]bool{}
	for start := range 6 {
		pairs := func(rank string) []string { return []string{"run", "bar", "rank", rank} }
		if start >= 3 { // devices whose places are not known
			pairs = func(rank string) []string { return []string{"run", "mig", "visible_devices", "MIG-" + rank} }
		}
		ranks := []*script{f.process(pairs("0")...), f.process(pairs("1")...)}
		names := map[string]bool{}
		for _, s := range ranks {
			s.Launch(1, 1)
			s.OnDevice(0, 1, 2, 3)
			s.Flushed(31_000_000)
			names[s.p.Reports()[0].Info["run"]] = true
		}
		for _, s := range ranks {
			if start%3 == 1 {
				break // it crashes before its first step
			}
			s.Step(40_000_000, "step:decode seq=1", 0)
			run, _ := s.runRanks()
			names[run] = true
			assert.True(t, s.lines[0].Pairs)
		}
		require.Len(t, names, 1)
		for name := range names {
			assert.False(t, runs[name], "start %d: %s", start, name)
			runs[name] = true
		}
		f.starts.Leave(f.next)
		f.starts.Leave(f.next - 1)
	}
}

// TestInfoDoesNotMoveARun that is settled.
func TestInfoDoesNotMoveARun(t *testing.T) {
	s := newFleet(t).process("run", "bar", "rank", "0")
	s.Step(1, "step:decode seq=1", 0)
	s.Frame(wire.KindInfo, infoBody("run", "other", "rank", "7", "container.id", "lie", "model", "m"))
	s.Step(200_000, "step:decode seq=2", 0)
	run, ranks := s.runRanks()
	assert.Equal(t, "bar", run)
	assert.Equal(t, []int64{0, 0}, ranks)
	assert.Equal(t, "m", s.p.info["model"])
	assert.NotContains(t, s.p.info, "container.id")
}
