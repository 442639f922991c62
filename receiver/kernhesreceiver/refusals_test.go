package kernhesreceiver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kernhes/kernhes/internal/wire"
)

// TestAWrongTokenIsLoggedOnce: the shim tries again each second. The session of another peer is not held back with it.
func TestAWrongTokenIsLoggedOnce(t *testing.T) {
	b, trust := secureBench(t)
	for range 5 {
		c := b.tlsClient(trust)
		c.write(hello(wire.Version, 1, "token", "wrong"))
		assert.Contains(t, c.closed(), "KERNHES_TOKEN is missing or wrong", "the peer is told each time")
	}
	require.Eventually(t, func() bool { return b.number("kernhes_connections_refused") == 5 }, waitFor, tick)
	lines := b.logs.FilterMessage("connection refused").All()
	require.Len(t, lines, 1)
	assert.Equal(t, "127.0.0.1", lines[0].ContextMap()["peer"])
}
