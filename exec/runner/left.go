package runner

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// left is what runners that are gone have left on disk of the output of starts whose outcomes are
// not journalled yet. Its files are this worker's to remove.
type left struct {
	mu     sync.Mutex
	starts map[wire.ID][]leftStart // by job and token
	count  int
}

// leftStart is a start whose runner is gone.
type leftStart struct {
	id      wire.ID
	process journal.Started
}

// mostLeft is how many bytes are read of all that is left, together; each stream has leastLeft at
// least.
const (
	mostLeft  = 64 << 20
	leastLeft = 64 << 10
)

// allOf stands for all starts of a claim.
func allOf(id wire.ID) wire.ID { return wire.ID{Job: id.Job, Token: id.Token} }

// note keeps in mind that a start has left something.
func (l *left) note(id wire.ID, process journal.Started) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starts == nil {
		l.starts = make(map[wire.ID][]leftStart)
	}
	l.starts[allOf(id)] = append(l.starts[allOf(id)], leftStart{id, process})
	l.count++
}

// share is how much is read of one stream.
func (l *left) share() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(leastLeft, mostLeft/(2*max(1, l.count)))
}

// of gives the process of a start that has left something.
func (l *left) of(id wire.ID) (process journal.Started, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, its := range l.starts[allOf(id)] {
		if its.id == id {
			process, found = its.process, true
		}
	}
	return process, found
}

// take gives what is left of a start's claim, and forgets it.
func (l *left) take(id wire.ID) []leftStart {
	l.mu.Lock()
	defer l.mu.Unlock()
	starts := l.starts[allOf(id)]
	delete(l.starts, allOf(id))
	l.count -= len(starts)
	return starts
}

// Left implements jobexec.Keeper.
func (r *Remote) Left(job int64, token string, attempt int, process journal.Started) (stdout, stderr journal.Output) {
	id := wire.ID{Job: job, Token: token, Attempt: attempt}
	c := &r.connector
	c.left.note(id, process)
	return c.read(id, process)
}

// read reads what is on disk of what a start has written.
func (c *connector) read(id wire.ID, process journal.Started) (stdout, stderr journal.Output) {
	paths, most := c.shelves(id, process), c.left.share()
	for i, output := range []*journal.Output{&stdout, &stderr} {
		p, err := partOf(paths[i], 0, most)
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

// shelves are the files of a start.
func (c *connector) shelves(id wire.ID, process journal.Started) (paths [2]string) {
	for i, name := range wire.OutputFiles(id, process) {
		paths[i] = c.shelf(name)
	}
	return paths
}

// Forget implements jobexec.Keeper. What a runner has on disk it removes itself; what one that is
// gone has left is removed here, of all attempts of the claim.
func (r *Remote) Forget(job int64, token string, attempt int) {
	id := wire.ID{Job: job, Token: token, Attempt: attempt}
	r.connector.forget(id)
	for _, its := range r.connector.left.take(id) {
		for _, path := range r.connector.shelves(its.id, its.process) {
			r.connector.remove(path)
		}
	}
}

func (c *connector) remove(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.config.Logger.Warn("output of a job that has ended can't be removed", "error", err)
	}
}

// Sweep implements jobexec.Keeper.
func (r *Remote) Sweep(needed func(job int64, token string, attempt int) bool) {
	c := &r.connector
	files, err := os.ReadDir(filepath.Join(c.config.Dir, wire.OutputFolder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.config.Logger.Warn("output of jobs that have ended can't be removed", "error", err)
	}
	for _, file := range files {
		if id, ok := wire.OutputOf(file.Name()); ok && !needed(id.Job, id.Token, id.Attempt) {
			c.remove(c.shelf(file.Name()))
		}
	}
}

// Adopt implements jobexec.Runner.
func (r *Remote) Adopt(of jobexec.Spec, started journal.Started) (jobexec.Process, bool) {
	its, since := claimOf(&of), beganAt(&of, started)
	if s, alive := r.connector.adopt(its.id, started, since, its.limit.From(since)); alive {
		return s, true
	}
	return nil, false
}

// beganAt is the uptime at which a start began that a former worker has asked for. Where its process
// was there before, that was when it was announced, as far as the clock was not set since.
func beganAt(of *jobexec.Spec, process journal.Started) int64 {
	if !shares(of.Mode) || of.Since.IsZero() {
		return began(process)
	}
	now := proc.Uptime()
	return min(max(now-int64(time.Since(of.Since)), began(process)), now)
}

// adopt finds the process of a start whose runner is gone, if it is alive still. When it has ended,
// its outcome has what the runner had put on disk.
func (c *connector) adopt(id wire.ID, started journal.Started, since int64, steps wire.Overrun) (s *stray, found bool) {
	return adopt(started, c.bootID, since, steps, func() (stdout, stderr journal.Output) {
		c.left.note(id, started)
		return c.read(id, started)
	})
}
