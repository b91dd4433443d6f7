package runner

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// reachInterval is how often a runner without a worker looks whether one can still come.
const reachInterval = 30 * time.Second

// home is where workers find the runner: its socket, in the working folder, which is the journal's.
type home struct{ folder, socket os.FileInfo }

// findHome gives what there is; nothing where the socket is not in the folder.
func findHome() home {
	folder, err := os.Stat(".")
	if err != nil {
		return home{}
	}
	socket, err := os.Stat(socketFile)
	if err != nil {
		return home{}
	}
	return home{folder, socket}
}

// reachable tells whether workers can still come: the folder's path leads to the folder, which it
// does not where that was removed, or its file system detached or covered by another; and the socket is
// in it, not another one. A folder that was renamed is found under its new name.
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
	socket, err := os.Stat(socketFile)
	return err == nil && os.SameFile(socket, h.socket)
}

// abandoned tells whether nothing runs, and the outcomes can't be fetched any more.
func (s *Server) abandoned() bool {
	if s.home.reachable() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, job := range s.jobs {
		if !job.done {
			return false
		}
	}
	return true
}
