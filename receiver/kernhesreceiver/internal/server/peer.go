package server

import (
	"errors"
	"fmt"
	"net"
	"slices"
)

// checkPeer says why the process at the other end of a connection may not be heard: nil if its user is allowed, or everyone is,
// because no uids are given. The kernel says who that is, as of when it connected: nothing that the process sends counts.
func checkPeer(conn net.Conn, uids []uint32) error {
	if len(uids) == 0 {
		return nil
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("allowed_uids: not a unix socket, so that nobody vouches for the user")
	}
	uid, pid, err := peerOf(socket)
	if err != nil {
		return fmt.Errorf("allowed_uids: %w", err)
	}
	if !slices.Contains(uids, uid) {
		return fmt.Errorf("allowed_uids: process %d of user %d is not allowed", pid, uid)
	}
	return nil
}
