package wire

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"jobd/journal"
)

// What the two sides share in the journal's folder, which is the runner's working folder.
const (
	// SocketFile is the socket on which the runner listens.
	SocketFile = "runner.sock"
	// EndedFile lists the instances of the runners that ended in order, one a line: with nothing
	// left of what they were asked to start. One that is not listed was killed, or the machine was.
	EndedFile = "runner.ended"
	// OutputFolder is where the runner keeps what jobs that run for long have written.
	OutputFolder = "runner.output"
)

// OutputFiles names the files in OutputFolder that have the stdout and the stderr of a start, as a
// runner that knows it by this id does. The process is part of the names, too.
func OutputFiles(id ID, process journal.Started) [2]string {
	name := fmt.Sprintf("%d.%d.%d.%d", id.Job, id.Attempt, process.Pid, process.StartTime)
	if id.Token != "" {
		name += "." + id.Token
	}
	return [2]string{name + ".out", name + ".err"}
}

// OutputOf reads such a name.
func OutputOf(file string) (id ID, ok bool) {
	var pid, started int64
	n, err := fmt.Sscanf(file, "%d.%d.%d.%d.", &id.Job, &id.Attempt, &pid, &started)
	if fields := strings.Split(file, "."); len(fields) == 6 {
		id.Token = fields[4]
	}
	return id, n == 4 && err == nil
}

// SocketDescriptor is the descriptor at which a new runner finds its socket.
const SocketDescriptor = 3

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
