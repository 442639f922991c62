package server

import (
	"net"
	"syscall"
)

// peerOf is the user and process that connected (SO_PEERCRED, unix(7)).
func peerOf(socket *net.UnixConn) (uid uint32, pid int32, err error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var who *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		who, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, 0, err
	}
	return who.Uid, who.Pid, nil
}
