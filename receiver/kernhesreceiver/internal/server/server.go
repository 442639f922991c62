// Package server turns connections of engines into frames for their sessions.
package server

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
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

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/flood"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/session"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
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
	floods   flood.Guard
	listener net.Listener
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []holder // in the order in which they came
	came  uint64   // until now
}

// A holder is a peer with an open connection.
type holder struct {
	share.Holder
	conn net.Conn
}

// Listen opens the endpoint. Its errors name the setting.
func Listen(ctx context.Context, set Settings, host component.Host) (*Server, error) {
	s := &Server{set: set}
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
	for i := range s.conns {
		_ = s.conns[i].conn.Close()
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
			s.set.Log.Error("endpoint: cannot accept connections", zap.Error(err))
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			continue
		}
		peer := peerAt(conn, s.set.Log)
		log := s.set.Log.With(zap.String("peer", peer.name))
		if err := peer.check(s.set.AllowedUIDs); err != nil {
			_ = conn.Close()
			s.turnedAway(ctx, log, peer.name, "uid", err.Error())
			continue
		}
		if !s.admit(ctx, conn, peer) {
			_ = conn.Close()
			s.turnedAway(ctx, log, peer.name, "connections", "max_connections are open")
			continue
		}
		s.set.Telemetry.ConnectionsAccepted.Add(ctx, 1)
		s.running.Go(func() {
			s.set.Telemetry.Connections.Add(ctx, 1)
			defer s.set.Telemetry.Connections.Add(ctx, -1)
			defer s.dismiss(conn)
			l := &link{server: s, conn: s.guard.secure(conn), peer: peer, log: log}
			l.serve(ctx)
		})
	}
}

// admit counts a connection against max_connections. Where all are open, the peer that has most of them loses one to those that have few.
func (s *Server) admit(ctx context.Context, c net.Conn, p peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if len(s.conns) >= s.set.MaxConnections {
		holders := make([]share.Holder, len(s.conns))
		for i := range s.conns {
			holders[i] = s.conns[i].Holder
		}
		i, ok := share.GivesWay(p.Peer, holders)
		if !ok {
			return false
		}
		_ = s.conns[i].conn.Close()
		s.turnedAway(ctx, s.set.Log, s.conns[i].Group, "share", "max_connections are open, and its container, user or host has most of them")
		s.conns = slices.Delete(s.conns, i, i+1)
	}
	s.came++
	s.conns = append(s.conns, holder{share.Holder{Peer: p.Peer, Since: s.came}, c})
	return true
}

func (s *Server) dismiss(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(h holder) bool { return h.conn == c })
}

// turnedAway counts a refused peer, and logs why, at most once a minute.
func (s *Server) turnedAway(ctx context.Context, log *zap.Logger, peer, reason, text string) {
	s.set.Telemetry.ConnectionsRefused.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", reason)))
	s.floods.Warn(log, flood.Kind{Who: peer, What: text}, "connection refused", zap.String("reason", text))
}
