package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/share"
)

// A peer is the other end of a connection, as the kernel knows it from when it connected: nothing that it sends counts.
type peer struct {
	share.Peer
	name      string // for logs
	uid       uint32
	pid       int32 // 0: of another pid namespace, or not on this host
	container identity.Container
	err       error // why a process on this host is not known
}

// peerAt tells peers apart, over all their connections: a process on this host, or another host.
func peerAt(conn net.Conn, log *zap.Logger) peer {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		host := conn.RemoteAddr().String()
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		return peer{Peer: share.Peer{Group: host}, name: host}
	}
	uid, pid, err := peerOf(socket)
	if err != nil {
		return peer{Peer: share.Peer{Group: "unknown"}, name: "unknown", err: err}
	}
	p := peer{Peer: share.Peer{Group: fmt.Sprintf("user %d", uid), Process: fmt.Sprintf("process %d of user %d", pid, uid), Vouched: true}, uid: uid, pid: pid}
	p.name = p.Process
	if pid == 0 {
		return p
	}
	if p.container, err = identity.ContainerOfProcess(pid); err != nil {
		log.Debug("the engine's container is not known", zap.Error(err))
	}
	if p.container.ID != "" {
		p.Group, p.Contained = "container "+p.container.ID, true
	}
	return p
}

// check says why the peer may not connect: nil if its user is allowed, or all users are, because no uids are given.
func (p *peer) check(uids []uint32) error {
	switch {
	case len(uids) == 0:
		return nil
	case p.err != nil:
		return fmt.Errorf("allowed_uids: %w", p.err)
	case !p.Vouched:
		return errors.New("allowed_uids: not a unix socket, so that nobody vouches for the user")
	case !slices.Contains(uids, p.uid):
		return fmt.Errorf("allowed_uids: %s is not allowed", p.name)
	}
	return nil
}

// vouch puts what the kernel knows of an engine in the place of what the engine claims.
func (p *peer) vouch(info map[string]string) {
	engine.DropContainer(info)
	if !p.Vouched {
		return
	}
	if host, err := os.Hostname(); err == nil {
		info["host"] = host
	}
	if p.pid != 0 {
		info["pid"] = fmt.Sprint(p.pid)
		info[engine.KeyContainer], info[engine.KeyPod] = p.container.ID, p.container.Pod
	}
}
