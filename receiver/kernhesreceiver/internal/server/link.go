package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/flood"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/resource"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/session"
)

// ackDelay is how long an acknowledgement waits at most for more frames: the shim's 128 MiB hold far more than 50 ms.
const ackDelay = 50 * time.Millisecond

// A link is one connection of an engine.
type link struct {
	server *Server
	conn   net.Conn
	peer   peer
	log    *zap.Logger
	feed   *session.Feed // nil: HELLO has not come

	ctx   context.Context // of serve
	waits time.Time       // since when the next frame is waited for
	armed bool            // the read deadline is set, to acknowledge
}

// errRefused ends a connection for a reason that was already logged and counted.
var errRefused = errors.New("refused")

// errSilent ends a connection that brings no frame.
var errSilent = errors.New("no whole frame within silence_timeout")

// serve reads a connection to its end. Errors end only this connection.
func (l *link) serve(ctx context.Context) {
	l.ctx = ctx
	reader := wire.NewReader(l)
	err := l.open(ctx, reader)
	if l.feed != nil {
		defer l.feed.Leave()
		if err == nil {
			err = l.read(ctx, reader)
		}
	}
	switch {
	case err == nil, err == io.EOF, errors.Is(err, errRefused), errors.Is(err, net.ErrClosed):
	case errors.Is(err, wire.ErrBadFrame):
		l.server.set.Telemetry.ProtocolErrors.Add(ctx, 1)
		l.server.floods.Warn(l.log, flood.Kind{Who: l.peer.name, What: err.Error()}, "connection ended by a bad frame", zap.Error(err), zap.Int64("at_byte", reader.Bytes()))
		l.say(wire.AppendRefused(nil, wire.RefusedProtocol, "%v", err))
	case errors.Is(err, errSilent):
		_ = l.refuse(ctx, "silent", err.Error(), 0)
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = l.refuse(ctx, "deaf", "what it is sent was not read within silence_timeout", 0)
	default:
		l.info("broke", "connection broke", zap.Error(err))
	}
}

// open takes HELLO, finds the session and answers WELCOME.
func (l *link) open(ctx context.Context, reader *wire.Reader) error {
	if err := l.handshake(ctx); err != nil {
		return err
	}
	reader.Limit(wire.MaxHello)
	f, err := reader.Next()
	reader.Limit(wire.MaxBody)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return l.refuse(ctx, "silent", "no HELLO within handshake_timeout", 0)
	case err != nil:
		return err
	case f.Kind != wire.KindHello:
		return fmt.Errorf("first frame is %s, want HELLO: %w", f.Kind, wire.ErrBadFrame)
	}
	hello, err := wire.ParseHello(f.Body)
	if err != nil {
		return err
	}
	if hello.Version != wire.Version {
		return l.refuse(ctx, "version", fmt.Sprintf("wire version %d, this collector speaks %d", hello.Version, wire.Version),
			wire.RefusedVersion)
	}
	if err := l.authenticate(ctx, hello); err != nil {
		return err
	}
	l.waits = time.Now()
	if err := l.listen(); err != nil {
		return err
	}
	hello.Session = wire.Public(hello.Session)
	l.log = l.log.With(zap.String("session", engine.SessionName(hello.Session)), zap.String("run", hello.Info["run"]),
		zap.String("rank", hello.Info["rank"]), zap.String("pid", hello.Info["pid"]))
	if frame, ok := l.server.set.Sessions.SaidBye(hello.Session); ok {
		// It ended, but the acknowledgement was lost on the way: say it again, and let the engine close.
		if err := l.say(wire.AppendWelcome(nil, wire.Welcome{Acknowledged: frame, Received: frame})); err != nil {
			return err
		}
		return l.discard(reader, frame)
	}
	l.peer.vouch(hello.Info)
	l.feed, err = l.server.set.Sessions.Attach(ctx, l.conn, hello, l.peer.Peer)
	switch {
	case errors.Is(err, session.ErrTooMany):
		return l.refuse(ctx, "sessions", err.Error(), wire.RefusedLimit)
	case errors.Is(err, session.ErrTooOften):
		return l.refuse(ctx, "rate", err.Error(), wire.RefusedLimit)
	case errors.Is(err, session.ErrForeign):
		return l.refuse(ctx, "foreign", err.Error(), wire.RefusedProtocol)
	case err != nil:
		return err
	}
	welcome := l.feed.Welcome()
	l.info("connected", "engine connected", zap.String("mode", hello.Info["mode"]), zap.String("mode_reason", hello.Info["mode_reason"]),
		zap.String("cupti_version", hello.Info["cupti_version"]), zap.Strings("cupti_known_faults", resource.FaultTexts(hello.Info, hello.Info["mode"])),
		zap.Uint64("acknowledged", welcome.Acknowledged), zap.Uint64("received", welcome.Received))
	return l.say(wire.AppendWelcome(nil, welcome))
}

// info logs what each connection brings; a peer that comes and goes all the time floods nothing.
func (l *link) info(kind, message string, fields ...zap.Field) {
	l.server.floods.Info(l.log, flood.Kind{Who: l.peer.Group, What: kind}, message, fields...)
}

// refuse counts, logs and tells the peer why a connection is closed; with code 0 it only closes.
func (l *link) refuse(ctx context.Context, reason, text string, code uint32) error {
	l.server.turnedAway(ctx, l.log, l.peer.name, reason, text)
	if code != 0 {
		if err := l.say(wire.AppendRefused(nil, code, "%s", text)); err != nil {
			return err
		}
	}
	return errRefused
}

// discard reads what an engine sends again of a session that has ended.
func (l *link) discard(reader *wire.Reader, last uint64) error {
	for {
		f, err := reader.Next()
		if err != nil {
			return err
		}
		if f.Number > last {
			return fmt.Errorf("frame %d after BYE, which was frame %d: %w", f.Number, last, wire.ErrBadFrame)
		}
	}
}

// read gives frames to the session until the connection or the session ends.
func (l *link) read(ctx context.Context, reader *wire.Reader) error {
	bytes := int64(0)
	for {
		f, err := reader.Next()
		if err != nil {
			return err
		}
		l.server.set.Telemetry.Frames.Add(ctx, 1)
		l.server.set.Telemetry.ReceivedBytes.Add(ctx, reader.Bytes()-bytes)
		bytes = reader.Bytes()
		if err := l.take(ctx, f); err != nil {
			return err
		}
	}
}

// take gives one frame to the session, and acknowledges what is due.
func (l *link) take(ctx context.Context, f wire.Frame) error {
	ack, err := l.feed.Take(ctx, f)
	l.waits = time.Now()
	if err != nil {
		return err
	}
	if ack.Ended {
		l.info("bye", "engine said bye")
		return l.acknowledge(ack)
	}
	if err := l.acknowledge(ack); err != nil {
		return err
	}
	if orders := l.feed.Orders(); len(orders) > 0 {
		if err := l.say(orders); err != nil {
			return err
		}
	}
	return l.arm()
}

// arm has Read return to acknowledge within ackDelay.
func (l *link) arm() error {
	if l.armed {
		return nil
	}
	l.armed = true
	return l.conn.SetReadDeadline(time.Now().Add(ackDelay))
}

// acknowledge sends what may be acknowledged.
func (l *link) acknowledge(a session.Ack) error {
	if !a.Due {
		return nil
	}
	return l.say(wire.AppendAck(nil, a.Frame))
}

// say writes a frame.
func (l *link) say(b []byte) error {
	if err := l.conn.SetWriteDeadline(time.Now().Add(l.server.set.SilenceTimeout)); err != nil {
		return err
	}
	_, err := l.conn.Write(b)
	return err
}

// Read reads from the connection, and acknowledges when that falls due while nothing comes: the engine's
// next frame may be a second away, and it holds memory until then.
func (l *link) Read(b []byte) (int, error) {
	for {
		n, err := l.conn.Read(b)
		if n > 0 || l.feed == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := l.passed(); err != nil {
			return 0, err
		}
	}
}

// passed takes it that the read deadline has passed. An engine of which nothing is left to deliver is left alone until
// it sends.
func (l *link) passed() error {
	if err := l.acknowledge(l.feed.Passed(l.ctx)); err != nil {
		return err
	}
	if time.Since(l.waits) >= l.server.set.SilenceTimeout {
		return errSilent
	}
	l.armed = false
	if l.feed.Settled() {
		return l.listen()
	}
	return l.arm()
}

// listen waits for the next frame for as long as an engine may be silent.
func (l *link) listen() error {
	return l.conn.SetReadDeadline(l.waits.Add(l.server.set.SilenceTimeout))
}
