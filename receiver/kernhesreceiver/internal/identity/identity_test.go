package identity

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pairs makes HELLO's pairs of "key value" texts.
func pairs(texts ...string) map[string]string {
	m := map[string]string{"host": "gpu07", "boot_id": "b", "leader.pid": "4242", "leader.start": "900"}
	for _, text := range texts {
		key, value, _ := strings.Cut(text, "=")
		m[key] = value
	}
	return m
}

func TestNameOf(t *testing.T) {
	world := World{Comm: 0xfeed, Rank: 3, Ranks: 8}
	for _, c := range []struct {
		name  string
		info  map[string]string
		world World
		want  Name
	}{
		{"a setting goes before all", pairs("run=nightly", "env.SLURM_JOB_ID=7"), world, Name{"nightly", FromSetting, false}},
		{"NCCL", pairs("env.SLURM_JOB_ID=7"), world, Name{"nccl-000000000000feed", FromNCCL, false}},
		{"a communicator of one rank", pairs("env.SLURM_JOB_ID=7"), World{Comm: 1, Ranks: 1}, Name{"slurm-7.batch.0", FromSlurm, false}},
		{"a communicator of a part", pairs("env.WORLD_SIZE=16", "env.SLURM_JOB_ID=7"), world, Name{"slurm-7.batch.0", FromSlurm, false}},
		{"a communicator of all", pairs("env.WORLD_SIZE=8"), world, Name{"nccl-000000000000feed", FromNCCL, false}},
		{"Slurm's step and restart", pairs("env.SLURM_JOB_ID=7", "env.SLURM_STEP_ID=2", "env.SLURM_RESTART_COUNT=1"), World{}, Name{"slurm-7.2.1", FromSlurm, false}},
		{"torchelastic", pairs("env.TORCHELASTIC_RUN_ID=j", "env.TORCHELASTIC_RESTART_COUNT=2", "env.MASTER_ADDR=n0", "env.MASTER_PORT=29500"), World{},
			Name{"torchelastic-j.2@n0:29500", FromTorch, false}},
		{"torchelastic below Slurm", pairs("env.SLURM_JOB_ID=7", "env.SLURM_STEP_ID=0", "env.TORCHELASTIC_RUN_ID=none", "env.TORCHELASTIC_RESTART_COUNT=2"), World{},
			Name{"slurm-7.0.0/restart-2", FromSlurm, false}},
		{"torchelastic's none", pairs("env.TORCHELASTIC_RUN_ID=none", "env.TORCHELASTIC_RESTART_COUNT=0"), World{}, Name{"gpu07/b/4242/900", FromLeader, true}},
		{"mpirun", pairs("env.OMPI_COMM_WORLD_SIZE=4", "env.PMIX_NAMESPACE=ns1"), World{}, Name{"mpi-ns1", FromJob, false}},
		{"PBS", pairs("env.PBS_JOBID=12.head"), World{}, Name{"pbs-12.head", FromJob, false}},
		{"nothing", pairs(), World{}, Name{"gpu07/b/4242/900", FromLeader, true}},
	} {
		assert.Equal(t, c.want, NameOf(c.info, c.world), c.name)
	}
}

func TestRankOf(t *testing.T) {
	world := World{Comm: 0xfeed, Rank: 3, Ranks: 8}
	for _, c := range []struct {
		name      string
		info      map[string]string
		world     World
		inherited bool
		want      string // number and evidence; "": only the device says it
	}{
		{"a setting goes before all", pairs("rank=5"), world, false, "5 KERNHES_RANK"},
		{"NCCL", pairs("env.RANK=1", "env.WORLD_SIZE=8", "env.LOCAL_RANK=1"), world, false, "3 " + FromNCCL},
		{"torchrun", pairs("env.RANK=1", "env.WORLD_SIZE=8", "env.LOCAL_RANK=1"), World{}, false, "1 RANK"},
		{"torchrun, workers of workers", pairs("env.RANK=1", "env.WORLD_SIZE=8", "env.LOCAL_RANK=1"), World{}, true, ""},
		{"Kubeflow", pairs("env.RANK=0", "env.WORLD_SIZE=2"), World{}, false, ""},
		{"RANK alone", pairs("env.RANK=0"), World{}, false, ""},
		{"one process", pairs("env.RANK=0", "env.WORLD_SIZE=1", "env.LOCAL_RANK=0"), World{}, false, ""},
		{"a rank beyond the world", pairs("env.RANK=8", "env.WORLD_SIZE=8", "env.LOCAL_RANK=0"), World{}, false, ""},
		{"srun with a task a GPU", pairs("env.SLURM_PROCID=6", "env.SLURM_STEP_NUM_TASKS=8"), World{}, false, "6 SLURM_PROCID"},
		{"srun with one task", pairs("env.SLURM_PROCID=0", "env.SLURM_STEP_NUM_TASKS=1"), World{}, false, ""},
		{"srun with a task a node", pairs("env.SLURM_PROCID=1", "env.SLURM_STEP_NUM_TASKS=2"), World{}, true, ""},
		{"sbatch", pairs("env.SLURM_PROCID=0", "env.SLURM_NTASKS=8"), World{}, false, ""},
		{"mpirun", pairs("env.OMPI_COMM_WORLD_RANK=2", "env.OMPI_COMM_WORLD_SIZE=4"), World{}, false, "2 OMPI_COMM_WORLD_RANK"},
		{"nothing", pairs(), World{}, false, ""},
	} {
		got := ""
		if r, ok := RankOf(c.info, c.world, c.inherited); ok {
			got = strconv.FormatInt(r.N, 10) + " " + r.From
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

func TestPlace(t *testing.T) {
	const host = "host.gpus=0000:3b:00.0,0000:5e:00.0,0000:af:00.0"
	for _, c := range []struct {
		name   string
		info   map[string]string
		device uint16
		want   int64 // below 0: not known
	}{
		{"nothing is said", pairs(), 3, 3},
		{"numbers", pairs("visible_devices=6, 7"), 1, 7},
		{"a device that the list lacks", pairs("visible_devices=6,7"), 2, 2},
		{"PCI order goes before numbers", pairs(host, "visible_devices=0", "gpu.0.pci=0000:af:00.0"), 0, 2},
		{"a UUID with an address", pairs(host, "visible_devices=GPU-1f", "gpu.0.uuid=GPU-1f", "gpu.0.pci=0000:5e:00.0"), 0, 1},
		{"a UUID alone", pairs("visible_devices=GPU-1f"), 0, -1},
		{"a MIG instance", pairs(host, "visible_devices=MIG-1f", "gpu.0.uuid=MIG-1f", "gpu.0.pci=0000:5e:00.0"), 0, -1},
		{"a GPU that the host does not list", pairs(host, "gpu.0.pci=0000:11:00.0"), 0, 0},
	} {
		got, ok := Place(c.info, c.device)
		if !ok {
			got = -1
		}
		assert.Equal(t, c.want, got, c.name)
	}
}

// A process of a test joins and gives its run and ranks.
type joiner struct {
	t *testing.T
	s *Starts
}

func (j joiner) join(session uint64, name Name, wants ...Want) (run string, ranks []int64) {
	j.t.Helper()
	got, err := j.s.Join(Claim{Session: session, Name: name, Host: "gpu07", Started: time.Unix(1_790_000_000+int64(session), 0), Wants: wants})
	require.NoError(j.t, err)
	for i, own := range got.Own {
		assert.True(j.t, own, "want %d", i)
	}
	return got.Run, got.Ranks
}

func (j joiner) run(session uint64, name Name, rank int64) string {
	j.t.Helper()
	run, ranks := j.join(session, name, Want{Rank: rank})
	assert.Equal(j.t, []int64{rank}, ranks)
	return run
}

var (
	given  = Name{Text: "bar", From: FromSetting}
	leader = Name{Text: "gpu07/b/4242/900", From: FromLeader, Local: true}
)

// TestThreeStartsOfOneName has two ranks start three times, in any order.
func TestThreeStartsOfOneName(t *testing.T) {
	for _, name := range []Name{given, leader} {
		j := joiner{t, NewStarts()}
		runs := map[string]bool{}
		for start, order := range [][]int64{{0, 1}, {1, 0}, {0, 1}} {
			first := j.run(uint64(10*start+1), name, order[0])
			assert.Equal(t, first, j.run(uint64(10*start+2), name, order[1]))
			assert.False(t, runs[first], "start %d", start)
			runs[first] = true
		}
		assert.Len(t, runs, 3)
		assert.Equal(t, name == given, runs["bar"], "the first start has the plain name, unless that holds on one host only")
	}
}

// TestARankThatReturnsAlone begins a run; others that return join it; a live one that reconnects keeps its own.
func TestARankThatReturnsAlone(t *testing.T) {
	j := joiner{t, NewStarts()}
	for rank := range int64(4) {
		require.Equal(t, "bar", j.run(uint64(rank+1), given, rank))
	}
	second := j.run(12, given, 1)
	assert.NotEqual(t, "bar", second)
	assert.Equal(t, second, j.run(13, given, 2))
	assert.Equal(t, "bar", j.run(4, given, 3), "session 4 is known")
	assert.NotContains(t, []string{"bar", second}, j.run(22, given, 1))
}

// TestTwoLiveProcessesOfOneRank stay apart.
func TestTwoLiveProcessesOfOneRank(t *testing.T) {
	j := joiner{t, NewStarts()}
	assert.NotEqual(t, j.run(1, given, 0), j.run(2, given, 0))
}

// TestEqualStamps has processes start in one second, and sessions that end alike.
func TestEqualStamps(t *testing.T) {
	s := NewStarts()
	runs := map[string]bool{}
	for i := range uint64(5) {
		j, err := s.Join(Claim{Session: i<<32 | 7, Name: leader, Host: "gpu07", Started: time.Unix(1_790_000_000, 0), Wants: []Want{{Rank: 0}}})
		require.NoError(t, err)
		assert.False(t, runs[j.Run], j.Run)
		runs[j.Run] = true
	}
}

// TestNCCLNamesASecondStart on all hosts alike.
func TestNCCLNamesASecondStart(t *testing.T) {
	world := World{Comm: 0xfeed, Rank: 0, Ranks: 2}
	var runs []string
	for _, host := range []string{"a", "b"} {
		s := NewStarts()
		for session := range uint64(2) {
			j, err := s.Join(Claim{Session: session + 1, Name: given, World: world, Host: host, Wants: []Want{{Rank: 0}}})
			require.NoError(t, err)
			runs = append(runs, j.Run)
		}
	}
	assert.Equal(t, []string{"bar", "bar#nccl-000000000000feed", "bar", "bar#nccl-000000000000feed"}, runs)
}

// TestPlacesOfNamedDevices gives ranks to devices that are named by UUIDs, in order of the names where both are connected.
func TestPlacesOfNamedDevices(t *testing.T) {
	for _, kind := range []string{"GPU-", "MIG-"} {
		s := NewStarts()
		j := joiner{t, s}
		a, b := pairs("visible_devices="+kind+"aaa"), pairs("visible_devices="+kind+"bbb")
		s.Arrive(1, a)
		s.Arrive(2, b)
		_, ranks := j.join(2, leader, Want{Any: true, Device: Device(b, 0)})
		assert.Equal(t, []int64{1}, ranks)
		_, ranks = j.join(1, leader, Want{Any: true, Device: Device(a, 0)})
		assert.Equal(t, []int64{0}, ranks)
		first, _ := j.join(1, leader)
		// The same devices again are another start.
		again, ranks := j.join(3, leader, Want{Any: true, Device: Device(a, 0)})
		assert.NotEqual(t, first, again)
		assert.Equal(t, []int64{0}, ranks)
	}
}

// TestWorkersThatSeeAllDevices has each worker use one of a list.
func TestWorkersThatSeeAllDevices(t *testing.T) {
	s := NewStarts()
	j := joiner{t, s}
	info := pairs("visible_devices=GPU-c,GPU-a")
	s.Arrive(1, info)
	s.Arrive(2, info)
	_, ranks := j.join(2, leader, Want{Any: true, Device: Device(info, 1)})
	assert.Equal(t, []int64{1}, ranks)
	_, ranks = j.join(1, leader, Want{Any: true, Device: Device(info, 0)})
	assert.Equal(t, []int64{0}, ranks)
}

func TestInherited(t *testing.T) {
	s := NewStarts()
	slurm := func(rank string) map[string]string {
		return pairs("env.SLURM_JOB_ID=7", "env.SLURM_STEP_ID=0", "env.SLURM_STEP_NUM_TASKS=2", "env.SLURM_PROCID="+rank)
	}
	s.Arrive(1, slurm("0"))
	s.Arrive(2, slurm("1"))
	assert.False(t, s.Inherited(1))
	s.Arrive(3, slurm("0"))
	assert.True(t, s.Inherited(1))
	assert.True(t, s.Inherited(3))
	assert.False(t, s.Inherited(2))
	s.Leave(3)
	assert.False(t, s.Inherited(1))
	s.Arrive(4, pairs())
	s.Arrive(5, pairs())
	assert.False(t, s.Inherited(4), "no launcher gave a rank")
}

func TestOwn(t *testing.T) {
	s := NewStarts()
	j := joiner{t, s}
	j.run(1, given, 0)
	j.run(2, given, 1)
	_, own, err := s.Own(1, Want{Rank: 2})
	require.NoError(t, err)
	assert.True(t, own)
	_, own, _ = s.Own(2, Want{Rank: 2})
	assert.False(t, own, "it is session 1's")
	_, own, _ = s.Own(1, Want{Rank: 2})
	assert.True(t, own)
	_, own, _ = s.Own(9, Want{Rank: 7})
	assert.False(t, own, "it never joined")
}

// TestACollectorRestartsBetweenTwoStarts, and while ranks live.
func TestACollectorRestartsBetweenTwoStarts(t *testing.T) {
	for _, name := range []Name{given, leader} {
		path := filepath.Join(t.TempDir(), "runs")
		open := func() joiner {
			s := NewStarts()
			skipped, err := s.Remember(path)
			require.NoError(t, err)
			assert.Zero(t, skipped)
			t.Cleanup(func() { _ = s.Close() })
			return joiner{t, s}
		}
		j := open()
		first := j.run(1, name, 0)
		require.Equal(t, first, j.run(2, name, 1))
		require.NoError(t, j.s.Close())

		j = open()
		assert.Equal(t, first, j.run(2, name, 1), "it reconnects")
		assert.Equal(t, first, j.run(3, name, 2), "a rank that was not there before")
		second := j.run(4, name, 0)
		assert.NotEqual(t, first, second)
		require.NoError(t, j.s.Close())

		j = open()
		assert.Equal(t, second, j.run(5, name, 1))
		assert.NotContains(t, []string{first, second}, j.run(6, name, 0))
	}
}

// TestADamagedMemory is read as far as it can be.
func TestADamagedMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs")
	text := `{"name":"bar","run":"bar","session":"1","ranks":[0]}
nonsense
{"name":"bar","run":"bar","session":"not hexadecimal","ranks":[1]}
` + strings.Repeat("x", 2*maxLine) + `
{"name":"bar","run":"bar","session":"2","ranks":[1]}
{"name":"bar","run":"ba`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	s := NewStarts()
	skipped, err := s.Remember(path)
	require.NoError(t, err)
	assert.Equal(t, 4, skipped)
	j := joiner{t, s}
	assert.Equal(t, "bar", j.run(2, given, 1))
	assert.NotEqual(t, "bar", j.run(3, given, 0))
	require.NoError(t, s.Close())
}

// TestMemoryIsBounded begins more starts than are remembered.
func TestMemoryIsBounded(t *testing.T) {
	s := NewStarts()
	_, err := s.Remember(filepath.Join(t.TempDir(), "runs"))
	require.NoError(t, err)
	j := joiner{t, s}
	for i := range uint64(5 * maxStarts) {
		j.run(i+1, Name{Text: "run " + strconv.FormatUint(i, 10), From: FromSetting}, 0)
	}
	assert.Len(t, s.order, maxStarts)
	assert.Len(t, s.newest, maxStarts)
	assert.Len(t, s.sessions, maxStarts)
	assert.Equal(t, maxStarts, s.ranks)
	assert.LessOrEqual(t, s.memory.lines, maxLines)
	require.NoError(t, s.Close())
}

// TestGuessesAreBounded has processes without steps come and go beside one that lives.
func TestGuessesAreBounded(t *testing.T) {
	s := NewStarts()
	s.Arrive(1, pairs("run=bar"))
	runs := map[string]bool{joiner{t, s}.run(1, given, 0): true}
	for session := uint64(2); session < 3+maxGuesses; session++ {
		j, err := s.Join(Claim{Session: session, Name: given, Wants: []Want{{Rank: 0}}, Guess: true})
		require.NoError(t, err)
		assert.Equal(t, []bool{false}, j.Own)
		runs[j.Run] = true
	}
	assert.Len(t, runs, 2, "the last of them begins a start")
	assert.Equal(t, maxGuesses+2, s.ranks)
	_, own, err := s.Own(3+maxGuesses-1, Want{Rank: 0})
	require.NoError(t, err)
	assert.True(t, own, "it runs a step after all")
	assert.Equal(t, maxGuesses+2, s.ranks)
}

// TestRanksOfOneProcessAreBounded has a process name more ranks than it may.
func TestRanksOfOneProcessAreBounded(t *testing.T) {
	s := NewStarts()
	joiner{t, s}.run(1, given, 0)
	for rank := int64(1); rank < maxSessionRanks; rank++ {
		_, own, _ := s.Own(1, Want{Rank: rank})
		require.True(t, own)
	}
	_, own, _ := s.Own(1, Want{Rank: maxSessionRanks})
	assert.False(t, own)
}

func FuzzRecall(f *testing.F) {
	f.Add([]byte(`{"name":"bar","run":"bar","session":"1","ranks":[0],"devices":{"d":0}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := NewStarts()
		s.recall(text)
		_, err := s.Join(Claim{Session: 1, Name: given, Wants: []Want{{Rank: 0}, {Any: true, Device: "d"}}})
		require.NoError(t, err)
	})
}
