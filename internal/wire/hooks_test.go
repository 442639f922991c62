package wire

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	return b
}

func TestStepDevice(t *testing.T) {
	b := unhex(t, "0700000000000000"+"78e0010000000000"+"6401000000000000"+"2002000000000000"+"8102000000000000"+"02000000"+"01000000"+"03000000"+"00000000")
	s, err := ParseStepDevice(b)
	require.NoError(t, err)
	ns, measured := s.DeviceNS()
	batch, known := s.Batch()
	assert.Equal(t, []any{uint64(7), uint64(123_000), true, uint32(3)}, []any{s.Seq(), ns, measured, s.Graphs()})
	assert.True(t, known)
	assert.Equal(t, Batch{PrefillTokens: 356, PrefillKVTokens: 544, DecodeKVTokens: 641, PrefillRequests: 2, DecodeRequests: 1}, batch)
	b[52] = 1
	_, measured = s.DeviceNS()
	_, known = s.Batch()
	assert.Equal(t, []bool{false, true}, []bool{measured, known})
	b[52] = 2
	_, measured = s.DeviceNS()
	_, known = s.Batch()
	assert.Equal(t, []bool{true, false}, []bool{measured, known})
	_, err = ParseStepDevice(b[:55])
	require.ErrorIs(t, err, ErrBadFrame)
}

func TestRequest(t *testing.T) {
	b := unhex(t, "02000000"+"06000000"+"dd43cd161965f70a"+"9c31801c21eb4884"+"636d706c2d62")
	r, err := ParseRequest(b)
	require.NoError(t, err)
	assert.Equal(t, uint32(2), r.Number)
	assert.Equal(t, "cmpl-b", string(r.ID))
	assert.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(r.TraceID[:]))
	for n := range b {
		_, err = ParseRequest(b[:n])
		require.ErrorIs(t, err, ErrBadFrame, n)
	}
	b[7] = 0xff // an id of 4 GiB
	_, err = ParseRequest(b)
	require.ErrorIs(t, err, ErrBadFrame)
}

func TestStepRequests(t *testing.T) {
	b := unhex(t, "0700000000000000"+"2a000000"+"28000000"+"02000000"+"00000000"+"01000000"+"01000000"+"80020000"+"09000000"+"00020000"+"00000000")
	s, err := ParseStepRequests(b)
	require.NoError(t, err)
	assert.Equal(t, []any{uint64(7), uint32(42), uint32(40), 2}, []any{s.Seq(), s.Total(), s.First(), s.Len()})
	assert.Equal(t, []StepRequest{{1, 1, 640}, {9, 512, 0}}, []StepRequest{s.At(0), s.At(1)})
	for n := range b {
		_, err = ParseStepRequests(b[:n])
		require.ErrorIs(t, err, ErrBadFrame, n)
	}
	b[19] = 0xff
	_, err = ParseStepRequests(b)
	require.ErrorIs(t, err, ErrBadFrame)
}
