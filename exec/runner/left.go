package runner

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// left is what runners that are gone have left on disk of the output of starts whose outcomes are
// not journalled yet. Its files are this worker's to remove.
type left struct {
	mu    sync.Mutex
	files map[int64][]string // by job
	count int
}

// mostLeft is how many bytes are read of all that is left, together; each stream has leastLeft at
// least.
const (
	mostLeft  = 64 << 20
	leastLeft = 64 << 10
)

// note keeps in mind that a start has left something.
func (l *left) note(id wire.ID, process journal.Started) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.files == nil {
		l.files = make(map[int64][]string)
	}
	names := wire.OutputFiles(id, process)
	l.files[id.Job] = append(l.files[id.Job], names[:]...)
	l.count++
}

// share is how much is read of one stream.
func (l *left) share() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(leastLeft, mostLeft/(2*max(1, l.count)))
}

// of gives the files of an attempt of a job.
func (l *left) of(id wire.ID) (names [2]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, name := range l.files[id.Job] {
		if its, _ := wire.OutputOf(name); its == id {
			names[i%2] = name
		}
	}
	return names
}

// take gives the files of a job, and forgets them.
func (l *left) take(job int64) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	files := l.files[job]
	if len(files) > 0 {
		delete(l.files, job)
		l.count -= len(files) / 2
	}
	return files
}

// Left implements jobexec.Keeper.
func (r *Remote) Left(job int64, attempt int, process journal.Started) (stdout, stderr journal.Output) {
	id := wire.ID{Job: job, Attempt: attempt}
	c := &r.connector
	c.left.note(id, process)
	return c.read(id, process)
}

// read reads what is on disk of what a start has written.
func (c *connector) read(id wire.ID, process journal.Started) (stdout, stderr journal.Output) {
	names, most := wire.OutputFiles(id, process), c.left.share()
	for i, output := range []*journal.Output{&stdout, &stderr} {
		p, err := partOf(c.shelf(names[i]), 0, most)
		if err != nil {
			c.config.Logger.Warn("what a job has written can't be read", "job", id.Job, "error", err)
		}
		*output = journal.Output{Kept: p.Bytes, Size: p.Size}
	}
	return stdout, stderr
}

// shelf is where the runner keeps a file of output.
func (c *connector) shelf(name string) string {
	return filepath.Join(c.config.Dir, wire.OutputFolder, name)
}

// Forget implements jobexec.Keeper. What a runner has on disk it removes itself; what one that is
// gone has left is removed here.
func (r *Remote) Forget(job int64, attempt int) {
	r.connector.forget(wire.ID{Job: job, Attempt: attempt})
	for _, name := range r.connector.left.take(job) {
		r.connector.remove(name)
	}
}

func (c *connector) remove(name string) {
	if err := os.Remove(c.shelf(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.config.Logger.Warn("output of a job that has ended can't be removed", "error", err)
	}
}

// Sweep implements jobexec.Keeper.
func (r *Remote) Sweep(needed func(job int64, attempt int) bool) {
	c := &r.connector
	files, err := os.ReadDir(filepath.Join(c.config.Dir, wire.OutputFolder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.config.Logger.Warn("output of jobs that have ended can't be removed", "error", err)
	}
	for _, file := range files {
		if id, ok := wire.OutputOf(file.Name()); ok && !needed(id.Job, id.Attempt) {
			c.remove(file.Name())
		}
	}
}

// Adopt implements jobexec.Runner.
func (r *Remote) Adopt(job int64, attempt int, started journal.Started) (jobexec.Process, bool) {
	id := wire.ID{Job: job, Attempt: attempt}
	if s, alive := r.connector.adopt(id, started); alive {
		return s, true
	}
	return nil, false
}

// adopt finds the process of a start whose runner is gone, if it is alive still. When it has ended,
// its outcome has what the runner had put on disk.
func (c *connector) adopt(id wire.ID, started journal.Started) (s *stray, found bool) {
	return adopt(started, c.bootID, func() (stdout, stderr journal.Output) {
		c.left.note(id, started)
		return c.read(id, started)
	})
}
