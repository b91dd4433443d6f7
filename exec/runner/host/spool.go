package host

import (
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
	closed chan struct{} // closed when the goroutine has returned

	mu      sync.Mutex
	fresh   map[*job]bool // have more than is on disk; true: remove their files
	changed *sync.Cond    // something is fresh, or closing
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
	s := &spool{folder: folder, closed: make(chan struct{}), fresh: make(map[*job]bool)}
	s.changed = sync.NewCond(&s.mu)
	go s.run()
	return s
}

// begin puts a job's output on disk from now on.
func (s *spool) begin(j *job) {
	s.mu.Lock()
	j.files = wire.OutputFiles(j.id, j.started)
	s.mu.Unlock()
	s.more(j)
}

// more says that a job has written more. It does not wait.
func (s *spool) more(j *job) { s.line(j, false) }

// forget has a job's files removed. It does not wait.
func (s *spool) forget(j *job) { s.line(j, true) }

// line puts a job into the line, if it is old enough to be on disk.
func (s *spool) line(j *job, forgotten bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.files[0] != "" {
		s.fresh[j] = s.fresh[j] || forgotten
		s.changed.Signal()
	}
}

// close has the goroutine end when it has done its work, and waits for that, but not for long.
func (s *spool) close() {
	s.mu.Lock()
	s.closing = true
	s.changed.Signal()
	s.mu.Unlock()
	select {
	case <-s.closed:
	case <-time.After(spoolPatience):
	}
}

func (s *spool) run() {
	defer close(s.closed)
	for {
		s.mu.Lock()
		for len(s.fresh) == 0 && !s.closing {
			s.changed.Wait()
		}
		fresh := s.fresh
		s.fresh = make(map[*job]bool)
		s.mu.Unlock()
		if len(fresh) == 0 {
			return
		}
		for j, forgotten := range fresh {
			s.put(j, forgotten)
		}
		time.Sleep(spoolRest)
	}
}

// put appends to a job's files what it has written since the last time, or removes them.
func (s *spool) put(j *job, forgotten bool) {
	for i, from := range []*capture{&j.stdout, &j.stderr} {
		name := j.files[i]
		if forgotten {
			_ = os.Remove(filepath.Join(s.folder, name)) // the next start of the worker tries again
			continue
		}
		from.mu.Lock()
		kept := from.kept
		from.mu.Unlock()
		if written := &j.written[i]; len(kept) > *written {
			*written += s.append(name, kept[*written:], *written == 0)
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
		_ = os.Mkdir(s.folder, 0o700) // it may be there
		flags |= os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(path, flags, 0o600)
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
