package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// left is which starts, whose outcomes are not journalled yet, have something on disk of runners that are
// gone, by their processes. The files are this worker's to remove.
type left struct {
	mu     sync.Mutex
	starts map[wire.ID]journal.Started
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
	if l.starts == nil {
		l.starts = make(map[wire.ID]journal.Started)
	}
	l.starts[id] = process
}

// share is how much is read of one stream.
func (l *left) share() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(leastLeft, mostLeft/(2*max(1, len(l.starts))))
}

// of gives the process of a start that has left something.
func (l *left) of(id wire.ID) (process journal.Started, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	process, found = l.starts[id]
	return process, found
}

// take gives what is left of all starts of a claim, and forgets it.
func (l *left) take(claim wire.ID) map[wire.ID]journal.Started {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := make(map[wire.ID]journal.Started)
	for id, process := range l.starts {
		if id.Job == claim.Job && id.Token == claim.Token {
			taken[id] = process
			delete(l.starts, id)
		}
	}
	return taken
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
	for id, process := range r.connector.left.take(id) {
		for _, path := range r.connector.shelves(id, process) {
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

// Written implements jobexec.Watcher.
func (r *Remote) Written(ctx context.Context, g jobexec.Glance) (jobexec.Written, error) {
	id := wire.ID{Job: g.Job, Token: g.Token, Attempt: g.Attempt}
	if l := r.connector.current(); l != nil && l.has(id) {
		if w, err := l.peek(ctx, id, g); !errors.Is(err, errLost) {
			return w, err
		}
	}
	return r.shelved(id, g)
}

// current is the link to the runner; nil where it is lost.
func (c *connector) current() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && c.link.alive() {
		return c.link
	}
	return nil
}

// has tells whether the runner has a job that is not known to have ended.
func (l *link) has(id wire.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.processes[id] != nil
}

// peek asks the runner what a job has written.
func (l *link) peek(ctx context.Context, id wire.ID, g jobexec.Glance) (w jobexec.Written, err error) {
	m, err := l.ask(ctx, wire.Message{Kind: wire.Peek, ID: id, Peek: &wire.Glance{From: g.From, Most: g.Most}}, wire.Peeked)
	if err != nil {
		return w, err
	}
	for i, p := range m.Peek.Parts {
		w[i] = jobexec.Part(p)
	}
	return w, nil
}

// shelved gives what is on disk of a start whose runner is gone.
func (r *Remote) shelved(id wire.ID, g jobexec.Glance) (w jobexec.Written, err error) {
	process, left := g.Started, true
	if process.Pid == 0 {
		process, left = r.connector.left.of(id)
	}
	if !left {
		return w, nil
	}
	for i, path := range r.connector.shelves(id, process) {
		if w[i], err = partOf(path, g.From[i], g.Most); err != nil {
			return w, err
		}
	}
	return w, nil
}

// partOf reads a part of a file. One that there is not is empty.
func partOf(path string, from int64, most int) (p jobexec.Part, err error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return jobexec.Part{At: max(from, 0)}, nil
	}
	if err != nil {
		return p, fmt.Errorf("read kept output: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return p, fmt.Errorf("read kept output: %w", err)
	}
	p.Size = info.Size()
	if from < 0 {
		from = max(from+p.Size, 0)
	}
	p.At = from // never before: a follower may have seen more than is on disk
	p.Bytes = make([]byte, max(0, min(int64(most), p.Size-p.At)))
	n, err := file.ReadAt(p.Bytes, p.At)
	if p.Bytes = p.Bytes[:n]; err != nil && err != io.EOF {
		return p, fmt.Errorf("read kept output: %w", err)
	}
	return p, nil
}
