package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/extension/extensionauth"

	"github.com/kernhes/kernhes/internal/wire"
)

// A guard admits peers: those that speak TLS, if it has that, and whose token an authenticator takes, if it has one.
type guard struct {
	tls  *tls.Config
	auth extensionauth.Server
}

// newGuard is the guard that the configuration asks for. Its errors name the setting.
func newGuard(ctx context.Context, cfg *Settings, host component.Host) (g guard, err error) {
	if cfg.TLS.HasValue() {
		if g.tls, err = cfg.TLS.Get().LoadTLSConfig(ctx); err != nil {
			return guard{}, fmt.Errorf("tls: %w", err)
		}
	}
	if cfg.Auth.HasValue() {
		if g.auth, err = cfg.Auth.Get().GetServerAuthenticator(ctx, host.GetExtensions()); err != nil {
			return guard{}, fmt.Errorf("auth: %w", err)
		}
	}
	return g, nil
}

// secure is the connection with TLS, if peers must speak that.
func (g *guard) secure(conn net.Conn) net.Conn {
	if g.tls == nil {
		return conn
	}
	return tlsConn{tls.Server(conn, g.tls)}
}

// A tlsConn closes at once: tls.Conn would first tell the peer, and wait for one that does not read.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) Close() error { return c.NetConn().Close() }

// admit asks the authenticator whether a token will do, as if it had come in the header of a request.
func (g *guard) admit(ctx context.Context, token string) error {
	if g.auth == nil {
		return nil
	}
	_, err := g.auth.Authenticate(ctx, map[string][]string{"authorization": {"Bearer " + token}})
	return err
}

// handshake makes the connection secure. HELLO must have come by the same deadline.
func (l *link) handshake(ctx context.Context) error {
	if err := l.conn.SetDeadline(time.Now().Add(l.server.set.HandshakeTimeout)); err != nil {
		return err
	}
	if c, ok := l.conn.(tlsConn); ok {
		if err := c.HandshakeContext(ctx); err != nil {
			return l.refuse(ctx, "tls", err.Error(), 0)
		}
	}
	return nil
}

// authenticate refuses an engine whose token will not do. The token goes no further than here.
func (l *link) authenticate(ctx context.Context, hello wire.Hello) error {
	token := hello.Info[wire.KeyToken]
	delete(hello.Info, wire.KeyToken)
	if err := l.server.guard.admit(ctx, token); err != nil {
		return l.refuse(ctx, "auth", "KERNHES_TOKEN is missing or wrong", wire.RefusedAuth)
	}
	return nil
}

// Exposed says that an endpoint can be reached from other hosts.
func Exposed(transport confignet.TransportType, endpoint string) bool {
	if transport == confignet.TransportTypeUnix {
		return false
	}
	host, _, err := net.SplitHostPort(endpoint)
	ip := net.ParseIP(host)
	return err == nil && host != "localhost" && !(ip != nil && ip.IsLoopback())
}
