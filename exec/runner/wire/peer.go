package wire

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// CheckPeer fails where the other end of a connection is a process of another user. The folder and
// the socket's mode keep those out, too.
func CheckPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("check peer: %w", err)
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("check peer: %w", err)
	}
	if peerErr != nil {
		return fmt.Errorf("check peer: %w", peerErr)
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("refused: the peer, process %d, is of user %d", peer.Pid, peer.Uid)
	}
	return nil
}
