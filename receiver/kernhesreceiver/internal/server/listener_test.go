package server

import (
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/confignet"
)

func TestStaleSocketIsReplaced(t *testing.T) {
	path := t.TempDir() + "/k.sock"
	set := &Settings{Address: confignet.AddrConfig{Transport: confignet.TransportTypeUnix, Endpoint: path}, SocketMode: 0o660}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	again, err := listen(t.Context(), set)
	require.NoError(t, err)
	require.NoError(t, again.Close())

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = listen(t.Context(), set)
	require.ErrorContains(t, err, "endpoint: "+path+" exists and is no socket")
}

// TestTheSocketIsNeverOpenToAll: between bind and chmod another user could connect where the umask permits it.
func TestTheSocketIsNeverOpenToAll(t *testing.T) {
	before := syscall.Umask(0)
	defer syscall.Umask(before)
	path := t.TempDir() + "/k.sock"
	l, err := bind(t.Context(), &Settings{Address: confignet.AddrConfig{Transport: confignet.TransportTypeUnix, Endpoint: path}, SocketMode: 0o600})
	require.NoError(t, err)
	defer l.Close()
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
}
