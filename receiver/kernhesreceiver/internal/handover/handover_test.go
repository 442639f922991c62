package handover

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is left for endpoints to which nobody returns is bounded, and the oldest of it goes.
func TestWhatIsLeftIsBounded(t *testing.T) {
	var r Registry[int]
	here, there := &net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2}
	r.Leave(there, 99)
	for i := range 3 * maxLeft {
		r.Leave(here, i)
	}
	_, ok := r.Take(there)
	require.False(t, ok)
	for i := range maxLeft {
		what, ok := r.Take(here)
		require.True(t, ok)
		require.Equal(t, 2*maxLeft+i, what)
	}
	_, ok = r.Take(here)
	require.False(t, ok)
}
