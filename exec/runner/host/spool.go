package host

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
)

// spool puts on disk what is kept of the output of jobs that run for longer than spoolAge, so that
// a runner that is killed does not take it along. One goroutine writes: the reactor only says that
// a job has more, and the goroutine takes what is there from the job's captures. So nothing is
// copied, a job stands in the line once however much it writes, and a slow disk holds up nobody
// else. Nothing is synced: what the page cache has survives the process, not a loss of power.
type spool struct {
	folder string
	wake   chan struct{}
	closed chan struct{} // closed when the goroutine has returned

	mu      sync.Mutex
	fresh   []*child // have more than is on disk
	gone    []*child // their files are to be removed
	closing bool
}

// spoolAge is the age from which on a job's output is put on disk, spoolRest how long the goroutine
// rests between two rounds: a job that writes all the time costs some writes a second.
const (
	spoolAge  = int64(time.Second)
	spoolRest = 100 * time.Millisecond
)

// spoolPatience is how long a runner that ends waits for a slow disk.
const spoolPatience = 2 * time.Second

func newSpool(folder string) *spool {
	s := &spool{folder: folder, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	go s.run()
	return s
}

// spooled is what the spool knows of a job that is old enough; a job that ends before costs nothing
// here. files stays as it is, written is the goroutine's, spool.mu guards the rest.
type spooled struct {
	files     [2]string
	written   [2]int // bytes
	inLine    bool
	forgotten bool
}

// begin puts a job's output on disk from now on.
func (s *spool) begin(id wire.ID, c *child) {
	c.spooled.Store(&spooled{files: wire.OutputFiles(id, c.started)})
	s.more(c)
}

// more says that a job has written more. It does not wait.
func (s *spool) more(c *child) {
	its := c.spooled.Load()
	if its == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !its.inLine && !its.forgotten {
		its.inLine = true
		s.fresh = append(s.fresh, c)
		s.ring()
	}
}

// forget has a job's files removed. It does not wait.
func (s *spool) forget(c *child) {
	its := c.spooled.Load()
	if its == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	its.forgotten = true
	s.gone = append(s.gone, c)
	s.ring()
}

// ring wakes the goroutine. Callers must hold s.mu.
func (s *spool) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// close has the goroutine end when it has done what there is to be done, and waits for that, but
// not for long.
func (s *spool) close() {
	s.mu.Lock()
	s.closing = true
	s.ring()
	s.mu.Unlock()
	select {
	case <-s.closed:
	case <-time.After(spoolPatience):
	}
}

func (s *spool) run() {
	defer close(s.closed)
	for range s.wake {
		for s.round() {
			time.Sleep(spoolRest)
		}
		s.mu.Lock()
		over := s.closing && len(s.fresh)+len(s.gone) == 0
		s.mu.Unlock()
		if over {
			return
		}
	}
}

// round does what has come together, and tells whether that was anything.
func (s *spool) round() (some bool) {
	s.mu.Lock()
	fresh, gone, closing := s.fresh, s.gone, s.closing
	s.fresh, s.gone = nil, nil
	for _, c := range fresh {
		c.spooled.Load().inLine = false
	}
	s.mu.Unlock()
	for _, c := range fresh {
		s.put(c)
	}
	for _, c := range gone {
		for _, name := range c.spooled.Load().files {
			_ = os.Remove(filepath.Join(s.folder, name)) // the next start of the worker tries again
		}
	}
	return len(fresh)+len(gone) > 0 && !closing
}

// put appends to a job's files what it has written since the last time.
func (s *spool) put(c *child) {
	its := c.spooled.Load()
	s.mu.Lock()
	forgotten := its.forgotten
	s.mu.Unlock()
	if forgotten {
		return
	}
	for i, from := range []*capture{&c.stdout, &c.stderr} {
		from.mu.Lock()
		kept := from.kept
		from.mu.Unlock()
		if written := &its.written[i]; len(kept) > *written {
			*written += s.append(its.files[i], kept[*written:], *written == 0)
		}
	}
}

// append writes to the end of a file, and gives how much it has written. What has no room, or fails
// for another reason, is tried again when the job writes more. It keeps no descriptor: there may be
// as many jobs as the runner may have descriptors.
func (s *spool) append(name string, more []byte, first bool) int {
	path, flags := filepath.Join(s.folder, name), os.O_WRONLY|os.O_APPEND
	if !roomFor(filepath.Dir(s.folder)) {
		return 0
	}
	if first {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if first && errors.Is(err, os.ErrNotExist) {
		_ = os.Mkdir(s.folder, 0o700)
		file, err = os.OpenFile(path, flags, 0o600)
	}
	if err != nil {
		return 0
	}
	defer file.Close()
	n, _ := file.Write(more)
	return n
}

// leastRoom is how much of the disk is left to the journal beside it, or a fifth of it where that
// is less: twice what the worker wants to be free before it claims (journal_min_free), as long as
// nobody configures that.
const leastRoom = 128 << 20

func roomFor(folder string) bool {
	var disk unix.Statfs_t
	if unix.Statfs(folder, &disk) != nil {
		return false
	}
	size := uint64(disk.Bsize)
	return disk.Bavail*size >= min(leastRoom, disk.Blocks*size/5)
}
