package duckdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/analysis/duck"
	"github.com/kernhes/kernhes/internal/chunk"
	"github.com/kernhes/kernhes/internal/chunk/chunktest"
)

// A trial is a run of one rank whose calls take a mean time, ns, with noise that lingers from step to step.
type trial struct {
	run, version string
	seed         uint64
	steps        int
	calls        []string
	mean         func(call string) float64
	noise        float64 // standard deviation, of the mean
	lingers      float64 // how much of a step's noise is the last step's
	at           uint64  // unix ns

	durs map[string][]float64 // what became of it, by call
}

func (r *trial) rank() chunktest.Rank {
	random := rand.New(rand.NewPCG(r.seed, 1))
	r.durs = map[string][]float64{}
	shape := &chunk.Shape{Hash: 1}
	for i, call := range r.calls {
		shape.Positions = append(shape.Positions, chunk.Position{Call: call, Name: "k", Launch: uint32(i)})
	}
	noise := make([]float64, len(r.calls))
	for i := range noise {
		noise[i] = random.NormFloat64()
	}
	out := chunktest.Rank{Identity: chunk.Identity{Run: r.run, Version: r.version, Mode: "hes"}}
	clock := r.at
	for seq := range r.steps {
		s := chunk.Step{Seq: int64(seq), Pairs: true, Program: "decode", Vars: "seqs=8,tokens=8", Seqs: 8, Tokens: 8, KV: 8192,
			Start: clock, Complete: true, Shape: shape}
		for i, call := range r.calls {
			noise[i] = r.lingers*noise[i] + math.Sqrt(1-r.lingers*r.lingers)*random.NormFloat64()
			dur := uint64(r.mean(call) * (1 + r.noise*noise[i]))
			s.Launches = append(s.Launches, chunk.Launch{Correlation: uint32(i)})
			s.Starts, s.Durs = append(s.Starts, clock), append(s.Durs, dur)
			clock += dur
			r.durs[call] = append(r.durs[call], float64(dur))
		}
		s.End = clock
		out.Steps = append(out.Steps, s)
	}
	return out
}

// stretches are the mean of each of 20 stretches as even as can be, the longer ones first.
func stretches(all []float64) (mean, error2 float64) {
	var means []float64
	for i, n := 0, 20; n > 0; n-- {
		size := (len(all) - i + n - 1) / n
		sum := 0.0
		for _, v := range all[i : i+size] {
			sum += v
		}
		means = append(means, sum/float64(size))
		i += size
	}
	for _, m := range means {
		mean += m / 20
	}
	for _, m := range means {
		error2 += (m - mean) * (m - mean) / 19 / 20
	}
	return mean, error2
}

func calls(form string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(form, i))
	}
	return all
}

func TestAB(t *testing.T) {
	labels := append(calls("same.%d", 100), calls("faster.%d", 20)...)
	a := &trial{run: "first", version: "v1", seed: 1, steps: 410, calls: labels, noise: 0.05, at: clock0, mean: func(string) float64 { return 50_000 }}
	b := &trial{run: "second", version: "v2", seed: 2, steps: 390, calls: labels, noise: 0.05, at: clock0 + 1e12, mean: func(call string) float64 {
		if strings.HasPrefix(call, "faster") {
			return 48_500
		}
		return 50_000
	}}
	one := t.TempDir()
	write(t, one, "a", a.rank())
	write(t, one, "b", b.rank())
	// Two archives whose runs have one name.
	two := t.TempDir()
	write(t, filepath.Join(two, "a"), "x", chunktest.Rank{Identity: chunk.Identity{Run: "run"}, Steps: a.rank().Steps})
	write(t, filepath.Join(two, "b"), "x", chunktest.Rank{Identity: chunk.Identity{Run: "run"}, Steps: b.rank().Steps})
	for name, archive := range map[string]duck.Archive{
		"the newest two":   {Dir: one},
		"runs by name":     {Dir: one, A: "first", B: "second"},
		"versions by name": {Dir: one, A: "v1", B: "v2"},
		"two archives":     {Dir: filepath.Join(two, "a"), DirB: filepath.Join(two, "b")},
	} {
		t.Run(name, func(t *testing.T) { ab(t, a, b, open(t, archive).file("ab.sql")) })
	}
}

func ab(t *testing.T, a, b *trial, rows []row) {
	require.Len(t, rows, len(a.calls))
	chance, found, within := 0, 0, 0
	for _, r := range rows {
		call := r.text("call")
		ma, ea := stretches(a.durs[call])
		mb, eb := stretches(b.durs[call])
		e := math.Sqrt(ea + eb)
		require.Equal(t, []int64{410, 390}, []int64{r.int("steps_a"), r.int("steps_b")})
		inDelta(t, ma/1e3, r.float("us_a"), call)
		inDelta(t, mb/1e3, r.float("us_b"), call)
		require.InDelta(t, 100*(mb-ma)/ma, r.float("diff_pct"), 1e-6, call)
		// Between 19 and 38 degrees of freedom, t is from 2.093 to 2.024, and for four of five tries from 0.861 to 0.851.
		half := (r.float("high_pct") - r.float("low_pct")) / 2
		require.InDelta(t, 2.0587, half*ma/100/e, 0.035, call)
		require.InDelta(t, 2.915, r.float("least_pct")*ma/100/e, 0.04, call)
		require.InDelta(t, r.float("diff_pct"), (r.float("high_pct")+r.float("low_pct"))/2, 1e-6)
		differs := r["differs"].(bool)
		require.Equal(t, differs, r.float("low_pct") > 0 || r.float("high_pct") < 0)
		if strings.HasPrefix(call, "faster") {
			if differs && r.float("diff_pct") < 0 {
				found++
			}
			if r.float("low_pct") <= -3 && -3 <= r.float("high_pct") {
				within++
			}
			require.Less(t, r.float("least_pct"), 3.0)
		} else if differs {
			chance++
		}
	}
	t.Logf("of 100 equal calls %d differ; of 20 faster ones %d, 3%% lies within %d intervals", chance, found, within)
	require.LessOrEqual(t, chance, 11)
	require.Equal(t, 20, found)
	require.GreaterOrEqual(t, within, 17)
}

// TestABOfNoiseThatLingers has runs that are equal, with steps much like the last: taken one by one, two of three calls
// would seem to differ.
func TestABOfNoiseThatLingers(t *testing.T) {
	labels := calls("same.%d", 100)
	a := &trial{run: "first", seed: 3, steps: 1000, calls: labels, noise: 0.05, lingers: 0.9, at: clock0, mean: func(string) float64 { return 50_000 }}
	b := *a
	b.run, b.seed, b.at = "second", 4, clock0+1e12
	dir := t.TempDir()
	write(t, dir, "a", a.rank())
	write(t, dir, "b", b.rank())
	chance := 0
	for _, r := range open(t, duck.Archive{Dir: dir}).file("ab.sql") {
		if r["differs"].(bool) {
			chance++
		}
	}
	t.Logf("of 100 equal calls %d differ", chance)
	require.LessOrEqual(t, chance, 14)
}

func TestStudent(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "solo", newFourRanks("x").ranks...)
	d := open(t, duck.Archive{Dir: dir})
	for df, want := range map[int][2]float64{3: {3.182446, 0.978472}, 5: {2.570582, 0.919544}, 10: {2.228139, 0.879058}, 19: {2.093024, 0.860951}, 38: {2.024394, 0.851025}} {
		r := d.query("select student(1.959963985, %d)::double as t, student(0.841621234, %d)::double as power", df, df)[0]
		require.InEpsilon(t, want[0], r.float("t"), 0.003, df)
		require.InEpsilon(t, want[1], r.float("power"), 0.003, df)
	}
}
