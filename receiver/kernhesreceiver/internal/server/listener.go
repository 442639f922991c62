package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"go.opentelemetry.io/collector/config/confignet"
)

// listen opens the configured endpoint. The folder of a unix socket is made if it is missing and a socket file that a dead
// process left behind is replaced; one that answers is not.
func listen(ctx context.Context, cfg *Settings) (net.Listener, error) {
	if cfg.Address.Transport != confignet.TransportTypeUnix {
		l, err := cfg.Address.Listen(ctx)
		if err != nil {
			return nil, fmt.Errorf("endpoint: %w", err)
		}
		return l, nil
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Address.Endpoint), 0o755); err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	if err := removeStale(ctx, cfg); err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	l, err := bind(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("endpoint: %w", err)
	}
	// The umask may have taken from it.
	if err := os.Chmod(cfg.Address.Endpoint, cfg.SocketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("socket_mode: %w", err), l.Close())
	}
	return l, nil
}

// bind listens on a unix socket that never lets in whom socket_mode does not: its file has the mode that the socket has before
// bind (unix(7)), less the umask. To set the process's umask meanwhile would change the files of all other components.
func bind(ctx context.Context, cfg *Settings) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), uint32(cfg.SocketMode)) })
		return errors.Join(err, failed)
	}}
	return config.Listen(ctx, string(cfg.Address.Transport), cfg.Address.Endpoint)
}

// removeStale removes a socket file on which no process listens.
func removeStale(ctx context.Context, cfg *Settings) error {
	info, err := os.Lstat(cfg.Address.Endpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is no socket", cfg.Address.Endpoint)
	}
	c, err := cfg.Address.Dial(ctx)
	if err == nil {
		return errors.Join(fmt.Errorf("%s is in use: another process listens there", cfg.Address.Endpoint), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(cfg.Address.Endpoint)
}
