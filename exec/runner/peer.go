package runner

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// checkPeer refuses processes of other users; the folder and the socket's mode do
// too.
func checkPeer(conn *net.UnixConn) error {
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
