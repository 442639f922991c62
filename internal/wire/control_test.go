package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPairsAreReadAsTheyWereWritten(t *testing.T) {
	var body []byte
	want := map[string]string{}
	for i := range MaxPairs {
		key, value := fmt.Sprint("key", i), strings.Repeat("v", i*16)
		body = AppendPair(body, key, value)
		want[key] = value
	}
	got, err := ParseInfo(body)
	require.NoError(t, err)
	require.Equal(t, want, got)

	_, err = ParseInfo(AppendPair(body, "one more", ""))
	require.ErrorIs(t, err, ErrBadFrame)
	require.ErrorContains(t, err, "more than 256 pairs")
	_, err = ParseInfo(AppendPair(nil, strings.Repeat("k", MaxKey+1), ""))
	require.ErrorContains(t, err, "key of 65 bytes")
	_, err = ParseInfo(AppendPair(nil, "k", strings.Repeat("v", MaxValue+1)))
	require.ErrorContains(t, err, "value of 4097")
	_, err = ParseInfo(AppendPair(nil, "k", "value")[:12])
	require.ErrorContains(t, err, "INFO at byte 0: key of 1 bytes and value of 5 with 4 left")
}

// TestTheLongestHelloIsRead: all texts that an engine sets at their longest, and each launcher's variable, lie well within it.
func TestTheLongestHelloIsRead(t *testing.T) {
	body := le.AppendUint64(nil, Magic)
	body = append(body, make([]byte, 16)...)
	for i := range MaxPairs {
		value := strings.Repeat("v", MaxValue)
		if i >= 16 {
			value = "v"
		}
		body = AppendPair(body, fmt.Sprintf("%064d", i), value)
	}
	require.Less(t, len(body), MaxHello)
	r := NewReader(bytes.NewReader(AppendFrame(nil, KindHello, FlagPinned, 0, body)))
	r.Limit(MaxHello)
	f, err := r.Next()
	require.NoError(t, err)
	require.True(t, f.Pinned())
	h, err := ParseHello(f.Body)
	require.NoError(t, err)
	require.Len(t, h.Info, MaxPairs)
}

func TestControlIsOfOneSize(t *testing.T) {
	b := AppendControl(nil, CommandYield, 7e9)
	f, err := NewReader(bytes.NewReader(b)).Next()
	require.NoError(t, err)
	require.Equal(t, KindControl, f.Kind)
	require.False(t, f.Pinned())
	require.Len(t, f.Body, 40)
	require.EqualValues(t, CommandYield, le.Uint32(f.Body))
	require.EqualValues(t, 7_000_000_000, le.Uint64(f.Body[8:]))
	require.Equal(t, make([]byte, 24), f.Body[16:])
	f, err = NewReader(bytes.NewReader(AppendControl(nil, CommandWindow, 1, 2, 3))).Next()
	require.NoError(t, err)
	require.Len(t, f.Body, 40)
	require.EqualValues(t, 1, le.Uint64(f.Body[8:]))
	require.EqualValues(t, 2, le.Uint64(f.Body[16:]))
	require.EqualValues(t, 3, le.Uint64(f.Body[24:]))
	require.Equal(t, "CONTROL", f.Kind.String())
	require.Equal(t, "kind 999", Kind(999).String())
}
