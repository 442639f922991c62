package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/books"
	"github.com/kernhes/kernhes/internal/fakeshim"
	"github.com/kernhes/kernhes/internal/krec"
	"github.com/kernhes/kernhes/internal/oracle"
	"github.com/kernhes/kernhes/internal/wire"
)

const recordings = "../../../../testdata/recordings"

// recordingNames are the recordings; with -short, one of them, for the race detector.
func recordingNames() []string {
	if testing.Short() {
		return []string{"tp2.rank1"}
	}
	return []string{"solo.rank0", "tp2.rank0", "tp2.rank1"}
}

// A worked recording is one and what the oracle makes of it. Tests share it, so none changes it.
type worked struct {
	*krec.Recording
	work *oracle.Work
}

// workedOut has the recordings by name that a test asked for: the oracle takes long.
var workedOut = map[string]worked{}

func workOut(t *testing.T, name string) worked {
	t.Helper()
	w, ok := workedOut[name]
	if !ok {
		r, err := krec.Read(filepath.Join(recordings, name+".krec.zst"))
		require.NoError(t, err)
		w = worked{r, oracle.Do(r, oracle.NCCL)}
		workedOut[name] = w
	}
	return w
}

// deliveries are the ways in which a recording's buffers may come.
var deliveries = map[string]fakeshim.Options{
	"position": {}, "flush": {Deliver: fakeshim.Flush}, "disorder": {Deliver: fakeshim.Flush, Reorder: 7},
}

// newTestProcess is a process with the default configuration that keeps its lines.
func newTestProcess(hello wire.Hello) *Process {
	return begin(testSettings(), hello)
}

// play gives frames, each with its head, to a process that it makes of HELLO, and ends it as BYE or as gone.
func play(frames [][]byte, each func(*Process)) (*Process, []StepTotals, error) {
	var p *Process
	var lines []StepTotals
	r := wire.NewReader(bytes.NewReader(bytes.Join(frames, nil)))
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			p.End(true)
			return p, append(lines, takeSteps(p)...), nil
		}
		if err != nil {
			return p, lines, err
		}
		if f.Kind == wire.KindHello {
			h, err := wire.ParseHello(f.Body)
			if err != nil {
				return p, lines, err
			}
			p = newTestProcess(h)
			continue
		}
		if err := p.Frame(f); err != nil {
			return p, lines, err
		}
		if f.Kind == wire.KindBye {
			p.End(false)
		}
		lines = append(lines, takeSteps(p)...)
		if each != nil {
			each(p)
		}
	}
}

// booksHold fails unless each identity of the process's counts holds, but for those that lies tells of: a shim that
// says what is not so can break these.
func booksHold(t *testing.T, p *Process, lies ...string) {
	t.Helper()
	for i, r := range p.Reports() {
		for name, n := range books.Residues(r.Counts) {
			if !slices.Contains(lies, name) {
				require.Zero(t, n, "rank %d: residue of %s: %v", i, name, r.Counts)
			}
		}
		require.Equal(t, r.Kernels, r.Became.Sum()+r.Pending, "the report is not what the books say: %+v", r.Became)
		require.Equal(t, r.WatermarkNS-r.FirstNS, r.ComputeNS+r.CommNS+r.IdleNS+r.UnknownNS, "likewise device time")
	}
}

// rows are the lines as the oracle's rows.
func rows(lines []StepTotals, device int) []oracle.Row {
	rows := []oracle.Row{}
	for _, l := range lines {
		if l.Device == device && l.Kernels > 0 {
			rows = append(rows, oracle.Row{
				Text: l.Text, Kernels: int(l.Kernels), Compute: int64(l.ComputeNS), Comm: int64(l.CommNS), Overlap: int64(l.OverlapNS),
				Wall: int64(l.WallNS), Foreign: int64(l.ForeignComputeNS), Complete: l.Complete,
				First: int64(l.StartNS), Last: int64(l.EndNS), Called: int(l.Called),
			})
		}
	}
	sortRows(rows)
	return rows
}

func sortRows(rows []oracle.Row) {
	slices.SortStableFunc(rows, func(a, b oracle.Row) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), cmp.Compare(a.Text, b.Text))
	})
}

// equal compares an account with what the oracle worked out.
func equal(t *testing.T, want *oracle.Work, p *Process, lines []StepTotals) {
	t.Helper()
	booksHold(t, p)
	reports := p.Reports()
	require.Len(t, reports, len(want.Devices))
	first := reports[0]
	require.EqualValues(t, want.Launches, first.Launches.All, "launches")
	require.EqualValues(t, want.CapturedLaunches, first.Launches.Captured, "captured launches")
	require.EqualValues(t, want.UnfulfilledLaunches, first.Launches.Unfulfilled, "unfulfilled launches")
	require.EqualValues(t, want.StepRanges, first.StepRanges, "step ranges")
	for i, w := range want.Devices {
		r := reports[i]
		require.EqualValues(t, w.Device, r.Device)
		require.EqualValues(t, w.Kernels+w.Invalid, r.Kernels, "kernels")
		require.EqualValues(t, w.Invalid, r.Became.Invalid, "invalid")
		require.EqualValues(t, w.InSteps, r.Became.InSteps, "in steps")
		require.EqualValues(t, w.CommKernels, r.Comm, "comm kernels")
		require.EqualValues(t, w.Called, r.Called, "called")
		copies := map[string]uint64{}
		for k, n := range w.Copies {
			name, known := copyNames[k]
			require.True(t, known, k)
			copies[name] += uint64(n)
		}
		require.Equal(t, copies, r.Copies, "copies")
		require.EqualValues(t, w.First, r.FirstNS, "first")
		require.EqualValues(t, w.Last, r.LastNS, "last")
		require.EqualValues(t, w.Last, r.WatermarkNS, "watermark")
		require.EqualValues(t, w.Compute, r.ComputeNS, "compute")
		require.EqualValues(t, w.Comm, r.CommNS, "comm")
		require.EqualValues(t, w.Overlap, r.OverlapNS, "overlap")
		require.EqualValues(t, w.Idle, r.IdleNS+r.UnknownNS, "idle and unknown")
		require.EqualValues(t, w.Copy, r.CopyNS, "copy")
		wantRows := slices.Clone(w.Steps)
		for i := range wantRows {
			wantRows[i].Order = 0
		}
		sortRows(wantRows)
		require.Equal(t, wantRows, rows(lines, r.Device))
	}
}

func TestRecordingsGiveTheirFigures(t *testing.T) {
	for _, name := range recordingNames() {
		recording := workOut(t, name)
		text, err := os.ReadFile(filepath.Join(recordings, name+".expect.json"))
		require.NoError(t, err)
		var want struct {
			oracle.Figures
			Steps [][]any `json:"steps"`
		}
		require.NoError(t, json.Unmarshal(text, &want))
		for how, options := range deliveries {
			t.Run(name+"/"+how, func(t *testing.T) {
				frames := 0
				p, lines, err := play(fakeshim.Frames(recording.Recording, options), func(p *Process) {
					if frames++; frames%16 == 0 { // a report of all steps so far is not cheap
						booksHold(t, p)
					}
				})
				require.NoError(t, err)
				r := p.Reports()[0]
				require.EqualValues(t, want.Kernels, r.Kernels)
				require.EqualValues(t, want.Compute, r.ComputeNS)
				require.EqualValues(t, want.Comm, r.CommNS)
				require.EqualValues(t, want.Overlap, r.OverlapNS)
				require.EqualValues(t, want.Idle, r.IdleNS)
				require.EqualValues(t, want.Last, r.WatermarkNS)
				require.EqualValues(t, want.InSteps, r.Became.InSteps)
				require.EqualValues(t, want.StepsComplete, r.Complete)
				var got []string
				for _, row := range rows(lines, r.Device) {
					got = append(got, fmt.Sprint([]any{row.Text, row.Kernels, row.Compute, row.Comm, row.Overlap, row.Wall, row.Foreign, row.Complete}))
				}
				var rows []string
				for _, row := range want.Steps {
					for i, v := range row {
						if f, ok := v.(float64); ok {
							row[i] = int64(f)
						}
					}
					rows = append(rows, fmt.Sprint(row))
				}
				require.Equal(t, rows, got)
				equal(t, recording.work, p, lines)
			})
		}
	}
}

func TestStoriesGiveTheOraclesFigures(t *testing.T) {
	for _, story := range krec.Stories() {
		for how, options := range deliveries {
			t.Run(story.Name+"/"+how, func(t *testing.T) {
				p, lines, err := play(fakeshim.Frames(story.Recording, options), func(p *Process) { booksHold(t, p) })
				require.NoError(t, err)
				equal(t, oracle.Do(story.Recording, oracle.Collective), p, lines)
			})
		}
	}
}

// TestChangedRecordingsAgreeWithTheOracle changes recordings at random: each mutation alone, then some together.
// KERNHES_SEEDS=N runs N more of those.
func TestChangedRecordingsAgreeWithTheOracle(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and in one goroutine: the race detector has nothing to see")
	}
	seeds := 6
	if n, err := strconv.Atoi(os.Getenv("KERNHES_SEEDS")); err == nil {
		seeds = n
	}
	var all []*krec.Recording
	for _, name := range recordingNames() {
		all = append(all, workOut(t, name).Recording)
	}
	check := func(name string, r *krec.Recording, seed uint64) {
		how := slices.Sorted(maps.Keys(deliveries))[seed%uint64(len(deliveries))]
		t.Run(fmt.Sprintf("%d/%s/%s", seed, name, how), func(t *testing.T) {
			p, lines, err := play(fakeshim.Frames(r, deliveries[how]), nil)
			require.NoError(t, err)
			equal(t, oracle.Do(r, oracle.Collective), p, lines)
		})
	}
	for i, name := range krec.Mutations() {
		r, err := krec.Apply(all[i%len(all)], uint64(i), name)
		require.NoError(t, err)
		check(name, r, uint64(i))
	}
	for seed := range uint64(seeds) {
		r, names := krec.Mutate(all[seed%uint64(len(all))], 100+seed)
		check(strings.Join(names, "+"), r, 100+seed)
	}
}

// copyNames are the names of copies by the names that the recordings' figures have (CUpti_ActivityMemcpyKind).
var copyNames = map[string]string{
	"memset": "memset", "copy kind 0": "unknown", "copy kind 1": "HtoD", "copy kind 2": "DtoH", "copy kind 8": "DtoD", "copy kind 9": "HtoH",
	"copy kind 10": "PtoP",
}
