package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
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
	check := func(conn net.Conn, uids []uint32) error {
		p := peerAt(conn, zap.NewNop())
		return p.check(uids)
	}
	unix := accepted(t, "unix", filepath.Join(t.TempDir(), "s"))
	assert.NoError(t, check(unix, nil))
	assert.NoError(t, check(unix, []uint32{me + 1, me}))
	err := check(unix, []uint32{me + 1})
	assert.ErrorContains(t, err, "is not allowed")

	uid, pid, err := peerOf(unix.(*net.UnixConn))
	require.NoError(t, err)
	assert.Equal(t, me, uid)
	assert.Equal(t, int32(os.Getpid()), pid)

	tcp := accepted(t, "tcp", "127.0.0.1:0")
	assert.NoError(t, check(tcp, nil))
	assert.ErrorContains(t, check(tcp, []uint32{me}), "not a unix socket")

	require.NoError(t, unix.Close())
	assert.ErrorContains(t, check(unix, []uint32{me}), "allowed_uids: ")
}

func TestPeersHaveNames(t *testing.T) {
	name := func(conn net.Conn) string { return peerAt(conn, zap.NewNop()).name }
	unix := accepted(t, "unix", filepath.Join(t.TempDir(), "s"))
	assert.Equal(t, fmt.Sprintf("process %d of user %d", os.Getpid(), os.Getuid()), name(unix))
	assert.Equal(t, "127.0.0.1", name(accepted(t, "tcp", "127.0.0.1:0")))
	require.NoError(t, unix.Close())
	assert.NotPanics(t, func() { name(unix) })
	assert.NotPanics(t, func() { a, _ := net.Pipe(); name(a) })
}

// TestTheKernelWinsOverClaims: what an engine says of its host, process and container counts only where nobody knows better.
func TestTheKernelWinsOverClaims(t *testing.T) {
	claims := func() map[string]string {
		return map[string]string{"host": "forged", "pid": "1", "container.id": "forged", "k8s.pod.uid": "forged", "engine": "vllm"}
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	unix := peerAt(accepted(t, "unix", filepath.Join(t.TempDir(), "s")), zap.NewNop())
	info := claims()
	unix.vouch(info)
	assert.Equal(t, map[string]string{"host": host, "pid": fmt.Sprint(os.Getpid()), "container.id": unix.container.ID, "k8s.pod.uid": unix.container.Pod, "engine": "vllm"}, info)

	tcp := peerAt(accepted(t, "tcp", "127.0.0.1:0"), zap.NewNop())
	info = claims()
	tcp.vouch(info)
	assert.Equal(t, map[string]string{"host": "forged", "pid": "1", "engine": "vllm"}, info, "no container is believed")
}

// TestMostGivesWay: one process holds all connections, and another is let in all the same.
func TestMostGivesWay(t *testing.T) {
	telemetry, err := metadata.NewTelemetry(componenttest.NewNopTelemetrySettings())
	require.NoError(t, err)
	s := &Server{set: Settings{Log: zap.NewNop(), Telemetry: telemetry, MaxConnections: 3}}
	bad, good := share.Peer{Group: "user 7", Process: "7"}, share.Peer{Group: "container a", Process: "8"}
	var ends []net.Conn
	admit := func(of share.Peer) bool {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		ends = append(ends, theirs)
		return s.admit(t.Context(), ours, peer{Peer: of})
	}
	for range 3 {
		require.True(t, admit(bad))
	}
	require.False(t, admit(bad))
	require.True(t, admit(good))
	_, err = ends[2].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the newest of those that have most")
	require.False(t, admit(bad), "it does not come back in the place of another")
	require.False(t, admit(good), "two of each would be no fairer")
	require.Len(t, s.conns, 3)
}
