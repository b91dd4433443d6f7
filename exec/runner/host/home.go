package host

import (
	"os"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
)

// home is where workers find the runner: its socket, in the working folder, which is the journal's.
type home struct{ folder, socket os.FileInfo }

// findHome returns the home as it is now; an empty one where the socket is not in the folder.
func findHome() home {
	folder, err := os.Stat(".")
	if err != nil {
		return home{}
	}
	socket, err := os.Stat(wire.SocketFile)
	if err != nil {
		return home{}
	}
	return home{folder, socket}
}

// reachable tells whether workers can still come: the path of the working folder leads to the
// folder, and the socket in it is the runner's. The path does not lead there if the folder was
// removed, or its file system detached or covered by another. A folder that was renamed is found
// under its new name.
func (h home) reachable() bool {
	if h.folder == nil {
		return false
	}
	var path [unix.PathMax]byte
	n, err := unix.Getcwd(path[:])
	if err != nil || n < 2 || path[0] != '/' {
		return false
	}
	folder, err := os.Stat(string(path[:n-1]))
	if err != nil || !os.SameFile(folder, h.folder) {
		return false
	}
	socket, err := os.Stat(wire.SocketFile)
	return err == nil && os.SameFile(socket, h.socket)
}
