//go:build chain

package chain_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/oracle"
)

// expected is NAME.expect.json.
func expected(t testing.TB, name string) (figures oracle.Figures, rows []string) {
	t.Helper()
	text, err := os.ReadFile(recordings + name + ".expect.json")
	require.NoError(t, err)
	var want struct {
		oracle.Figures
		Steps []json.RawMessage `json:"steps"`
	}
	require.NoError(t, json.Unmarshal(text, &want))
	for _, row := range want.Steps {
		rows = append(rows, string(row))
	}
	return want.Figures, rows
}

// isExpected fails unless each figure and each row of the recording is what came out.
func isExpected(t *testing.T, name string, r *rank) {
	t.Helper()
	want, rows := expected(t, name)
	work := oracle.Work{Counts: want.Counts, Devices: []*oracle.Figures{&want}}
	hasFigures(t, &work, []*rank{r})
	assert.Equal(t, want.StepsComplete, r.StepsComplete, "complete steps")
	assert.Zero(t, r.UnknownNS, "unknown")
	var got []string
	groups := map[string]oracle.Group{}
	for _, s := range r.steps {
		row, err := json.Marshal([]any{s.Text, s.Kernels, s.ComputeNS, s.CommNS, s.OverlapNS, s.WallNS, s.ForeignComputeNS, s.Complete})
		require.NoError(t, err)
		got = append(got, string(row))
		text := fmt.Sprintf("step:%s %s", s.Program, s.Vars)
		if kv := keyOf(s.Text, "kv"); kv != "" {
			text += ",kv=" + kv
		}
		g := groups[text]
		groups[text] = oracle.Group{Steps: g.Steps + 1, Kernels: g.Kernels + s.Kernels, Compute: g.Compute + s.ComputeNS,
			Comm: g.Comm + s.CommNS, Wall: g.Wall + s.WallNS}
		assert.Equal(t, s.WallNS-s.IdleNS, s.ComputeNS+s.CommNS, "%s: wall less idle", s.Text)
		assert.Equal(t, keyOf(s.Text, "seq"), fmt.Sprint(s.Seq), "%s: seq", s.Text)
		assert.True(t, s.Pairs, "%s: seq pairs with other ranks", s.Text)
	}
	assert.Equal(t, rows, got, "rows")
	assert.Equal(t, want.Groups, groups, "groups")
	assert.Equal(t, 1.0, r.n["kern_trace_drop_count_readable"])
	assert.Zero(t, r.n.sum("kern_trace_dropped_records_total"), "dropped records")
	assert.Equal(t, want.Kernels, r.n.count("kern_shim_kernels_total"), "kernels that the shim saw")
	assert.Equal(t, "bye", r.Ended)
}

// keyOf is the value of a key in a step's text.
func keyOf(text, key string) string {
	_, pairs, _ := strings.Cut(text, " ")
	for pair := range strings.SplitSeq(pairs, ",") {
		if v, ok := strings.CutPrefix(pair, key+"="); ok {
			return v
		}
	}
	return ""
}

// hasFigures fails unless the ranks of a process have what the oracle worked out; rows, invalid and copy time only where it
// has them.
func hasFigures(t *testing.T, want *oracle.Work, ranks []*rank) {
	t.Helper()
	require.Len(t, ranks, len(want.Devices), "ranks")
	first := ranks[0]
	assert.Equal(t, want.Launches, first.Launches, "launches")
	assert.Equal(t, want.CapturedLaunches, first.CapturedLaunches, "captured launches")
	assert.Equal(t, want.UnfulfilledLaunches, first.Unfulfilled, "unfulfilled launches")
	assert.Equal(t, want.StepRanges, first.StepRanges, "step ranges")
	for i, w := range want.Devices {
		r := ranks[i]
		for what, pair := range map[string][2]int64{
			"kernels": {int64(w.Kernels + w.Invalid), int64(r.Kernels)}, "in steps": {int64(w.InSteps), int64(r.InSteps)},
			"invalid": {int64(w.Invalid), int64(r.Invalid)}, "comm kernels": {int64(w.CommKernels), int64(r.CommKernels)},
			"called": {int64(w.Called), int64(r.Called)}, "first start": {w.First, r.FirstNS}, "last end": {w.Last, r.LastNS},
			"compute": {w.Compute, r.ComputeNS}, "comm": {w.Comm, r.CommNS}, "overlap": {w.Overlap, r.OverlapNS},
			"idle and unknown": {w.Idle, r.IdleNS + r.UnknownNS},
		} {
			assert.Equal(t, pair[0], pair[1], "device %d: %s", w.Device, what)
		}
		assert.Equal(t, copiesOf(t, w), nonZero(r.Copies), "device %d: copies", w.Device)
	}
}

// copyNames are the names of copies in metrics, by their names in the recordings' figures (CUpti_ActivityMemcpyKind).
var copyNames = map[string]string{"memset": "memset", "copy kind 1": "HtoD", "copy kind 2": "DtoH", "copy kind 8": "DtoD", "copy kind 10": "PtoP"}

// copiesOf is how many copies the oracle saw, by their names in metrics.
func copiesOf(t testing.TB, f *oracle.Figures) map[string]int {
	t.Helper()
	of := map[string]int{}
	for kind, n := range nonZero(f.Copies) {
		require.Contains(t, copyNames, kind)
		of[copyNames[kind]] = n
	}
	return of
}

// hasRows fails unless the steps of a rank are the oracle's rows.
func hasRows(t *testing.T, want *oracle.Figures, r *rank) {
	t.Helper()
	assert.Equal(t, rowsOf(want), linesOf(r.steps), "device %d: rows", want.Device)
	assert.Equal(t, want.Copy, r.CopyNS, "device %d: copy time", want.Device)
}

// rowsOf is the oracle's rows as lines would have them; steps without kernels are in neither.
func rowsOf(f *oracle.Figures) []stepLine {
	lines := []stepLine{}
	for _, w := range f.Steps {
		lines = append(lines, stepLine{Text: w.Text, Kernels: w.Kernels, Called: w.Called, ComputeNS: w.Compute, CommNS: w.Comm,
			OverlapNS: w.Overlap, WallNS: w.Wall, ForeignComputeNS: w.Foreign, Complete: w.Complete, StartNS: w.First, EndNS: w.Last})
	}
	sortSteps(lines)
	return lines
}

// linesOf is what rowsOf has of the lines.
func linesOf(steps []stepLine) []stepLine {
	lines := []stepLine{}
	for _, s := range steps {
		if s.Kernels > 0 {
			lines = append(lines, stepLine{Text: s.Text, Kernels: s.Kernels, Called: s.Called, ComputeNS: s.ComputeNS, CommNS: s.CommNS,
				OverlapNS: s.OverlapNS, WallNS: s.WallNS, ForeignComputeNS: s.ForeignComputeNS, Complete: s.Complete,
				StartNS: s.StartNS, EndNS: s.EndNS})
		}
	}
	sortSteps(lines)
	return lines
}

// asRecorded is what the oracle makes of the recordings: beside what is expected, where each step begins and ends.
var asRecorded = sync.OnceValue(func() map[string]*oracle.Work {
	of := map[string]*oracle.Work{}
	for _, name := range names {
		r, err := krec.Read(file(name))
		if err != nil {
			panic(err)
		}
		of[name] = oracle.Do(r, oracle.NCCL)
	}
	return of
})

// sameAsOracle fails unless all that the oracle worked out of a recording came out of the chain.
func sameAsOracle(t *testing.T, r *krec.Recording, ranks []*rank) {
	t.Helper()
	work := oracle.Do(r, oracle.Collective)
	hasFigures(t, work, ranks)
	for i, w := range work.Devices {
		assert.Equal(t, w.Device, ranks[i].Device)
		hasRows(t, w, ranks[i])
	}
}

func TestRecordingsGiveTheirFigures(t *testing.T) {
	for how, args := range map[string][]string{
		"flat out":              {},
		"recorded speed":        {"--speed", "recorded"},
		"delivered as recorded": {"--deliver", "recorded"},
		"out of order":          {"KERNHES_MOCK_FAULT=reorder=7"},
		"short buffers":         {"KERNHES_MOCK_FAULT=short-buffers,reorder=3,patience=120000"},
		"late buffers":          {"KERNHES_MOCK_FAULT=late-complete=50,hold-back,flush-slow=20"},
		"ids that wrap":         {"KERNHES_MOCK_FAULT=wrap"},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			// On a busy machine 10,000 short buffers may come for longer than step_timeout after the last kernel: then the idle
			// card would be accounted on.
			c := newCollector(t, "step_timeout: 60s")
			// Each in a run of its own; both ranks of tp2 in one are TestBothRanksAtOnce.
			var plays []*play
			for _, name := range names {
				plays = append(plays, c.begin(t, append(slices.Clone(args), file(name))...))
			}
			for i, p := range plays {
				p.end(0)
				ranks := c.ranks(t, p.run)
				require.Len(t, ranks, 1)
				isExpected(t, names[i], ranks[0])
				work := asRecorded()[names[i]]
				hasFigures(t, work, ranks)
				hasRows(t, work.Devices[0], ranks[0])
			}
			pages := scrape(t, c.metrics)
			exported := c.exported(t)
			for id, r := range pages {
				if r.run != "" {
					assert.Equal(t, r.numbers, exported[id], "the file exporter's numbers of %s", id)
				}
			}
		})
	}
}

func TestBothRanksAtOnce(t *testing.T) {
	for how, args := range map[string][]string{"flat out": {}, "recorded speed": {"--speed", "recorded"}, "rebased": {"--rebase"}} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			ranks, _ := c.play(t, append(slices.Clone(args), file("tp2.rank0"), file("tp2.rank1"))...)
			require.Len(t, ranks, 2)
			assert.NotEqual(t, ranks[0].Session, ranks[1].Session)
			for i, r := range ranks {
				assert.EqualValues(t, i, r.Rank)
				if how == "rebased" {
					shift := r.FirstNS - first(t, names[1+i])
					r.FirstNS, r.LastNS, r.WatermarkNS = r.FirstNS-shift, r.LastNS-shift, r.WatermarkNS-shift
				}
				isExpected(t, names[1+i], r)
			}
			drill(t, ranks)
		})
	}
}

func first(t testing.TB, name string) int64 {
	f, _ := expected(t, name)
	return f.First
}

// drill fails unless the decode steps say what the recorded drill was: where another kernel keeps rank 1's GPU busy, rank 0
// waits, and rank 1's own steps compute hardly longer.
func drill(t *testing.T, ranks []*rank) {
	t.Helper()
	type sum struct{ steps, comm, compute int64 }
	var quiet, disturbed sum
	comm := map[uint64]int64{} // rank 0's, by seq
	for _, s := range ranks[0].steps {
		comm[s.Seq] = s.CommNS
	}
	for _, s := range ranks[1].steps {
		to := &quiet
		if s.ForeignComputeNS > 1e6 {
			to = &disturbed
		}
		if s.Program == "decode" {
			to.steps, to.comm, to.compute = to.steps+1, to.comm+comm[s.Seq], to.compute+s.ComputeNS
		}
	}
	require.Greater(t, disturbed.steps, int64(10))
	assert.Greater(t, disturbed.comm/disturbed.steps, 2*quiet.comm/quiet.steps, "rank 0's comm")
	assert.InEpsilon(t, quiet.compute/quiet.steps, disturbed.compute/disturbed.steps, 0.05, "rank 1's compute")
}
