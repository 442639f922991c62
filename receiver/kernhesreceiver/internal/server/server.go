// Package server turns connections of engines into frames for their sessions.
package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configauth"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/session"
)

// Settings are the settings of the receiver's endpoint; those that have the name of a setting of the receiver are it.
type Settings struct {
	Log              *zap.Logger
	Telemetry        *metadata.Telemetry
	Sessions         *session.Sessions
	Address          confignet.AddrConfig
	SocketMode       fs.FileMode
	AllowedUIDs      []uint32
	TLS              configoptional.Optional[configtls.ServerConfig]
	Auth             configoptional.Optional[configauth.Config]
	HandshakeTimeout time.Duration
	SilenceTimeout   time.Duration
	MaxConnections   int
}

// A Server listens for engines, and gives the frames of each connection to its session.
type Server struct {
	set      Settings
	guard    guard
	refusals refusals
	listener net.Listener
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// Listen opens the endpoint. Its errors name the setting.
func Listen(ctx context.Context, set Settings, host component.Host) (*Server, error) {
	s := &Server{set: set, conns: map[net.Conn]struct{}{}}
	var err error
	if s.guard, err = newGuard(ctx, &set, host); err != nil {
		return nil, err
	}
	if s.listener, err = listen(ctx, &set); err != nil {
		return nil, err
	}
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve begins to serve connections.
func (s *Server) Serve() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running.Go(func() { s.accept(ctx) })
}

// Close closes the endpoint and all connections, and waits until they have ended, or the context has.
func (s *Server) Close(ctx context.Context) error {
	if s.stop != nil {
		s.stop()
	}
	err := s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, ctx.Err())
	}
	return err
}

// accept serves each connection in a goroutine of its own.
func (s *Server) accept(ctx context.Context) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors, mostly: others may be freed meanwhile.
			s.set.Log.Error("accept", zap.Error(err))
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			continue
		}
		peer := peerName(conn)
		log := s.set.Log.With(zap.String("peer", peer))
		if err := checkPeer(conn, s.set.AllowedUIDs); err != nil {
			_ = conn.Close()
			s.turnedAway(ctx, log, peer, "uid", err.Error())
			continue
		}
		if !s.admit(ctx, conn) {
			_ = conn.Close()
			s.turnedAway(ctx, log, peer, "connections", "max_connections are open")
			continue
		}
		s.set.Telemetry.ConnectionsAccepted.Add(ctx, 1)
		s.running.Go(func() {
			s.set.Telemetry.Connections.Add(ctx, 1)
			defer s.set.Telemetry.Connections.Add(ctx, -1)
			defer s.dismiss(conn)
			l := &link{server: s, conn: s.guard.secure(conn), socket: conn, peer: peer, log: log}
			l.serve(ctx)
		})
	}
}

// admit counts a connection against max_connections.
func (s *Server) admit(ctx context.Context, c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= s.set.MaxConnections || ctx.Err() != nil {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) dismiss(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// turnedAway counts that a peer was refused, and says why, if that was not said within a minute.
func (s *Server) turnedAway(ctx context.Context, log *zap.Logger, peer, reason, text string) {
	s.set.Telemetry.ConnectionsRefused.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
	s.refusals.warn(log, refusal{peer, text}, "connection refused", zap.String("reason", text))
}
