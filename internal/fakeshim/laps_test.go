package fakeshim

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/krec"
)

// TestLapsGoOn plays a recording three times: the first time as Frames does, then again with later times and other
// correlation ids, each of whose launches was told before.
func TestLapsGoOn(t *testing.T) {
	r, err := krec.Read(filepath.Join("../../testdata/recordings/tp2.rank0.krec.zst"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(bytes.Join(Frames(r, Options{}), nil), bytes.Join(Laps(r, Options{}, 1, nil), nil)), "one lap is the recording")
	launched, kernels := map[uint32]bool{}, map[uint32]int{}
	pushed := map[string]int{}
	var now uint64
	for _, f := range split(t, Laps(r, Options{Deliver: Flush}, 3, nil)) {
		switch f.kind {
		case kindEvents:
			for b := f.body; len(b) > 0; b = b[le.Uint16(b[2:]):] {
				require.GreaterOrEqual(t, le.Uint64(b[8:]), now)
				now = le.Uint64(b[8:])
				switch le.Uint16(b) {
				case evLaunch:
					id := le.Uint32(b[16:])
					require.False(t, launched[id], "launch %d comes twice", id)
					launched[id] = true
				case evPush:
					if at := bytes.Index(b[:le.Uint16(b[2:])], []byte("step:")); at >= 0 {
						pushed[string(bytes.TrimRight(b[at:le.Uint16(b[2:])], "\x00"))]++
					}
				}
			}
		case kindKernels:
			for ; len(f.body) > 0; f.body = f.body[64:] {
				require.True(t, launched[le.Uint32(f.body[24:])])
				kernels[le.Uint32(f.body[24:])]++
			}
		}
	}
	n := 0
	for _, one := range kernels {
		n += one
	}
	require.Equal(t, 3*117_977, n, "three times the kernels of testdata's figures")
	require.Len(t, pushed, 3*189, "steps: each with a seq of its own")
}
