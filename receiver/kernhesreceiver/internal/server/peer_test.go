package server

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// accepted is the listener's end of a new connection.
func accepted(t *testing.T, network, address string) net.Conn {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial(network, l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	conn, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestCheckPeer(t *testing.T) {
	me := uint32(os.Getuid())
	unix := accepted(t, "unix", filepath.Join(t.TempDir(), "s"))
	assert.NoError(t, checkPeer(unix, nil))
	assert.NoError(t, checkPeer(unix, []uint32{me + 1, me}))
	err := checkPeer(unix, []uint32{me + 1})
	assert.ErrorContains(t, err, "is not allowed")

	uid, pid, err := peerOf(unix.(*net.UnixConn))
	require.NoError(t, err)
	assert.Equal(t, me, uid)
	assert.Equal(t, int32(os.Getpid()), pid)

	tcp := accepted(t, "tcp", "127.0.0.1:0")
	assert.NoError(t, checkPeer(tcp, nil))
	assert.ErrorContains(t, checkPeer(tcp, []uint32{me}), "not a unix socket")

	require.NoError(t, unix.Close())
	assert.ErrorContains(t, checkPeer(unix, []uint32{me}), "allowed_uids: ")
}
