package engine

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/ranges"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/shimscript"
)

var le = binary.LittleEndian

// testSettings are the receiver's defaults, with steps kept as lines.
func testSettings(changes ...func(*Settings)) Settings {
	set := Settings{
		StepTimeout: 10 * time.Second, Patterns: ranges.Default, CallDomains: []string{""},
		BatchEdges: []int64{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768},
		KVEdges:    []int64{1024, 4096, 16384, 65536, 131072, 262144, 1048576},
		MaxStrings: 65_536, MaxRanges: 65_536, MaxShapes: 4096, MaxSeries: 2000, MaxSessionBytes: 256 << 20,
		Lines: true, Rules: &rules.Files{}, Starts: identity.NewStarts(),
	}
	for _, change := range changes {
		change(&set)
	}
	return set
}

// archived has all kernels packed, and no lines kept.
func archived(s *Settings) { s.Archive, s.Lines = true, false }

func begin(set Settings, hello wire.Hello) *Process { return NewEngines(set).Begin(hello) }

// A script sends what it writes to a process.
type script struct {
	*shimscript.Script
	t     *testing.T
	p     *Process
	lines []StepTotals
}

func us(t uint64) uint64          { return shimscript.Us(t) }
func u32(values ...uint32) []byte { return shimscript.U32(values...) }
func u64(values ...uint64) []byte { return shimscript.U64(values...) }

const (
	epoch  = shimscript.Epoch
	second = shimscript.Second
)

func newScript(t *testing.T, pairs ...string) *script {
	info := map[string]string{"run": "r", "rank": "0"}
	for i := 0; i < len(pairs); i += 2 {
		info[pairs[i]] = pairs[i+1]
	}
	return scriptFor(t, newTestProcess(wire.Hello{Version: 1, Session: 0xabc, Info: info}))
}

// scriptFor writes for a process.
func scriptFor(t *testing.T, p *Process) *script {
	s := &script{t: t, p: p}
	s.Script = &shimscript.Script{Out: func(f wire.Frame) {
		t.Helper()
		require.NoError(t, s.p.Frame(f))
		s.lines = append(s.lines, takeSteps(s.p)...)
	}}
	return s
}

func (s *script) bye() {
	s.Bye()
	s.end(false)
}
func (s *script) end(gone bool) {
	s.p.End(gone)
	s.lines = append(s.lines, takeSteps(s.p)...)
}

// report checks the books and returns the numbers of the first device.
func (s *script) report() Report {
	s.t.Helper()
	booksHold(s.t, s.p)
	return s.p.Reports()[0]
}

// oneStep is a step of one kernel that runs from at+10 to at+30.
func (s *script) oneStep(at uint64, c uint32) {
	s.Push(at, "step:decode tokens=1")
	s.Launch(at+1, c)
	s.Pop(at + 2)
	s.Ran(c, at+10, at+30)
}

// takeSteps takes final steps as a dump does that is always written.
func takeSteps(p *Process) (steps []StepTotals) {
	for _, one := range p.TakeSteps() {
		steps = append(steps, one.StepTotals)
		one.Release(true)
	}
	return steps
}

// takeChunks takes chunks as a pipeline does that never refuses.
func takeChunks(p *Process) []OutboundChunk {
	chunks := p.TakeChunks()
	for _, one := range chunks {
		one.Release(true)
	}
	return chunks
}
