package wire

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What the two sides share in the journal's folder, which is the runner's working folder.
const (
	// SocketFile is the socket on which the runner listens.
	SocketFile = "runner.sock"
	// EndedFile lists the instances of the runners that ended in order, one a line: with nothing
	// left of what they were asked to start. One that is not listed was killed, or the machine was.
	EndedFile = "runner.ended"
)

// SocketDescriptor is the descriptor at which a new runner finds its socket.
const SocketDescriptor = 3

// LockFile is the journal's lock, which a worker holds as long as it lives.
const LockFile = "lock"

// NameOf names a runner: text is its alone, the rest is which process it is.
func NameOf(text string, pid int, startTime uint64) string {
	return fmt.Sprintf("%s.%d.%d", text, pid, startTime)
}

// ProcessOf is which process a runner is, by its name. It fails for names that builds before 1.1.0 gave.
func ProcessOf(name string) (pid int, startTime uint64, ok bool) {
	if fields := strings.Split(name, "."); len(fields) == 3 {
		pid, _ = strconv.Atoi(fields[1])
		startTime, _ = strconv.ParseUint(fields[2], 10, 64)
	}
	return pid, startTime, pid > 0
}

// Peer is the process at the other end of a connection, as the kernel names it: the one that has
// connected, or the one that listens. It fails where that is of another user. The folder and the
// socket's mode keep those out, too.
func Peer(conn *net.UnixConn) (pid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("check peer: %w", err)
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, fmt.Errorf("check peer: %w", err)
	}
	if peerErr != nil {
		return 0, fmt.Errorf("check peer: %w", peerErr)
	}
	if int(peer.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("refused: the peer, process %d, is of user %d", peer.Pid, peer.Uid)
	}
	return int(peer.Pid), nil
}
