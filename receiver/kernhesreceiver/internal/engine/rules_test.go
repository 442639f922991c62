package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
)

// A followed process is one whose user writes to a file that the configuration names.
type followed struct {
	*script
	path    string
	changes []rules.Change
}

func ofClasses(path string) (*rules.Files, error)  { return rules.Open(path, "") }
func ofManifest(path string) (*rules.Files, error) { return rules.Open("", path) }

// follow begins a session whose setting names a file with a text.
func follow(t *testing.T, open func(path string) (*rules.Files, error), text string) *followed {
	f := &followed{script: newScript(t), path: filepath.Join(t.TempDir(), "file")}
	require.NoError(t, os.WriteFile(f.path, []byte(text), 0o600))
	files, err := open(f.path)
	require.NoError(t, err)
	set := testSettings()
	set.Rules = files
	f.p = begin(set, wire.Hello{Session: 0xabc, Info: map[string]string{"run": "r", "rank": "0"}})
	return f
}

// writes has the user write a text, and the receiver look at it.
func (f *followed) writes(text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.path, []byte(text), 0o600))
	f.changes = append(f.changes, f.p.set.rules.Poll()...)
}

// graphOfOurs captures a graph of a kernel named 1 for 10 µs and one named 2 for 30 µs; replay is a step of it.
func (s *script) graphOfOurs() {
	s.Push(1, "a call")
	s.Node(2, 5<<32)
	s.Node(3, 5<<32|1)
	s.Pop(4)
	s.Clone(5, 5<<32, 6<<32)
	s.Clone(5, 5<<32|1, 6<<32|1)
}

func (s *script) replay(at uint64, c uint32) {
	s.Push(at, "step:decode")
	s.GraphLaunch(at+1, c)
	s.Pop(at + 2)
	s.ranNodeNamed(c, 6<<32, 1, at+10, at+20)
	s.ranNodeNamed(c, 6<<32|1, 2, at+20, at+50)
}

func (s *script) eager(at uint64, c uint32) {
	s.Launch(at, c)
	s.ranNamed(c, 1, at+10, at+20)
}

func TestRunningSessionsFollowTheClassTable(t *testing.T) {
	f := follow(t, ofClasses, "comm\tpath\t^nothing$\n")
	f.Strings("ours", "theirs")
	f.graphOfOurs()
	comm := func(want uint64) {
		t.Helper()
		require.Equal(t, want*1000, f.lines[len(f.lines)-1].CommNS)
		require.Equal(t, 40_000-want*1000, f.lines[len(f.lines)-1].ComputeNS)
	}
	f.replay(1000, 1)
	f.Flushed(2000)
	comm(0)
	require.Zero(t, f.report().Comm)

	// A step is open while the user writes: it goes by what is said when it closes.
	f.replay(3000, 2)
	f.Push(3500, "step:decode")
	f.GraphLaunch(3501, 3)
	f.ranNodeNamed(3, 6<<32, 1, 3510, 3520)
	f.writes("# version: mine\ncomm\tpath\t^ours$\n")
	f.Flushed(3600)
	comm(10)
	f.ranNodeNamed(3, 6<<32|1, 2, 3520, 3550)
	f.Pop(3560)
	f.Flushed(3700)
	comm(10)
	require.Zero(t, f.report().Comm, "records that came before were not looked at")
	f.replay(4000, 4)
	f.eager(4100, 5)
	f.Flushed(5000)
	comm(10)
	r := f.report()
	require.EqualValues(t, 2, r.Comm, "of the graph that was known, and of a new launch")
	require.EqualValues(t, 40_000, r.CommNS, "three steps and a kernel of none")
	require.EqualValues(t, 40_000, r.Coverage.By[1].NS)
	require.Equal(t, "mine+"+rules.Shipped.Classes.Version, f.p.set.rules.Latest().Classes.Version)

	// A broken table is refused, once, with the place and the reason.
	for range 3 {
		f.writes("comm\tpath\t^theirs$\nbroken\n")
	}
	require.Len(t, f.changes, 2)
	require.ErrorContains(t, f.changes[1].Err, f.path+": rule in line 2: 1 columns")
	f.replay(6000, 6)
	f.Flushed(7000)
	comm(10)

	f.writes("comm\tpath\t^theirs$\n")
	f.replay(8000, 7)
	f.Flushed(9000)
	f.replay(10_000, 8)
	f.Flushed(11_000)
	comm(30)
	before := f.report().CommNS
	f.replay(12_000, 9)
	f.Flushed(13_000)
	comm(30)
	require.EqualValues(t, 30_000, f.report().CommNS-before, "device time knows it too")
	require.Len(t, f.changes, 3)
	require.NoError(t, f.changes[2].Err)
}

// manifestOf is a manifest in which a call only communicates.
func manifestOf(call string) string {
	return `{"kernhes_manifest": 1, "calls": [{"label": "` + call + `", "op": "exchange", "class": "comm"}]}`
}

func TestRunningSessionsFollowTheManifest(t *testing.T) {
	f := follow(t, ofManifest, manifestOf("another call"))
	f.Strings("ours", "theirs")
	f.graphOfOurs()
	step := func(at uint64, c uint32, comm uint64) {
		t.Helper()
		f.replay(at, c)
		f.Flushed(at + 500)
		require.Equal(t, comm*1000, f.lines[len(f.lines)-1].CommNS)
	}
	first := f.p.info["engine_version"]
	step(1000, 1, 0)
	f.writes(manifestOf("a call"))
	step(2000, 2, 40)
	step(3000, 3, 40)
	require.EqualValues(t, 80_000, f.report().CommNS)
	require.EqualValues(t, 80_000, f.report().Coverage.By[2].NS)
	require.NotEqual(t, first, f.p.info["engine_version"], "its hash is the version")
	f.writes(`{"kernhes_manifest": 1, "calls": [{}]}`)
	step(4000, 4, 40)
	require.Len(t, f.changes, 2)
	require.ErrorContains(t, f.changes[1].Err, "calls")
	f.writes(manifestOf("another call"))
	step(5000, 5, 0)
	step(6000, 6, 0)
	require.EqualValues(t, 120_000, f.report().CommNS)
	require.Equal(t, first, f.p.info["engine_version"])

	f.Frame(wire.KindManifest, []byte(manifestOf("a call")))
	step(7000, 7, 40)
	f.writes(manifestOf("a third call"))
	step(8000, 8, 40) // the engine's own stays
	step(9000, 9, 40)
}

// What is learned from one graph is known of another that has the same kernels in the same call.
func TestGraphsShareWhatIsLearned(t *testing.T) {
	f := follow(t, ofManifest, manifestOf("a call"))
	f.Strings("ours", "theirs")
	f.graphOfOurs()
	f.Clone(6, 5<<32, 7<<32)
	other := func(at uint64, c uint32) {
		f.Push(at, "step:decode")
		f.GraphLaunch(at+1, c)
		f.Pop(at + 2)
		f.ranNodeNamed(c, 7<<32, 1, at+10, at+20)
	}
	f.replay(1000, 1)
	other(1100, 2) // before anything is learned
	f.Flushed(2000)
	before := f.report().Comm
	require.Zero(t, before)
	other(3000, 3)
	f.Flushed(4000)
	require.EqualValues(t, 1, f.report().Comm)
}
