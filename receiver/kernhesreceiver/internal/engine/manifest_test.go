package engine

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
)

// strings sends ids 1, 2, … for texts.
func (s *script) Strings(texts ...string) {
	var b []byte
	for i, text := range texts {
		b = append(b, u32(uint32(i+1), uint32(len(text)))...)
		b = append(b, text...)
		for len(b)%8 != 0 {
			b = append(b, 0)
		}
	}
	s.Frame(wire.KindStrings, b)
}

func (s *script) ranNamed(c, name uint32, start, end uint64) { s.ranNodeNamed(c, 0, name, start, end) }

func (s *script) ranNodeNamed(c uint32, node uint64, name uint32, start, end uint64) {
	b := make([]byte, 64)
	copy(b, u64(us(start), us(end), node))
	copy(b[24:], u32(c, name, 7))
	s.Frame(wire.KindKernels, b)
}

// experts is a step of one call that launches a kernel on peers' memory, and one that only computes.
func (s *script) experts(at uint64, c uint32) {
	s.Push(at, "step:prefill tokens=1")
	s.Push(at+1, "prefill.target.moe.layers.0.experts")
	s.Launch(at+2, c)
	s.Pop(at + 3)
	s.Push(at+4, "prefill.target.moe.layers.0.gate")
	s.Launch(at+5, c+1)
	s.Pop(at + 6)
	s.Pop(at + 7)
	s.ranNamed(c, 1, at+10, at+20)
	s.ranNamed(c+1, 2, at+20, at+50)
}

func TestTheManifestSaysWhatCommunicates(t *testing.T) {
	body, err := os.ReadFile("../manifest/testdata/toy-moe-ep2.json")
	require.NoError(t, err)
	s := newScript(t)
	s.Strings("_Z5plainv", "gate_topk")
	s.experts(0, 1)
	s.Flushed(1000)
	require.Zero(t, s.lines[0].CommNS, "its name says nothing")

	s.Frame(wire.KindManifest, []byte(`{"schema_version": 5`))
	require.Nil(t, s.p.manifest, "a broken one is refused")
	s.Frame(wire.KindManifest, body)
	s.experts(2000, 10)
	s.Flushed(3000)
	s.experts(4000, 20)
	s.Flushed(5000)
	for _, line := range s.lines[1:] {
		require.EqualValues(t, 10_000, line.CommNS)
		require.EqualValues(t, 30_000, line.ComputeNS)
	}
	r := s.report()
	require.GreaterOrEqual(t, r.CommNS, uint64(10_000), "device time knows it once it was learned")
	require.Zero(t, r.Mismatches)
	require.Equal(t, s.p.manifest.Version[:12], r.Info["engine_version"])

	s.Push(6000, "step:prefill tokens=1")
	s.Push(6001, "a call that the manifest has not")
	s.Launch(6002, 30)
	s.Pop(6003)
	s.Pop(6004)
	s.ranNamed(30, 2, 6010, 6020)
	s.Flushed(7000)
	require.EqualValues(t, 1, s.report().Mismatches)
}

func TestASessionBeginsWithTheUsersManifest(t *testing.T) {
	files, err := rules.Open("", "../manifest/testdata/toy-moe-ep2.json")
	require.NoError(t, err)
	set := testSettings()
	set.Rules = files
	require.NotNil(t, begin(set, wire.Hello{Info: map[string]string{}}).manifest)
}
