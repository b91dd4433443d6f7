package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// mostLeft is how many bytes are read of each stream that a runner has left which is gone: there may be
// as many as there are slots.
const mostLeft = 64 << 10

// Left implements jobexec.Keeper.
func (r *Remote) Left(job int64, token string, attempt int, process journal.Started) (stdout, stderr journal.Output) {
	return r.read(wire.ID{Job: job, Token: token, Attempt: attempt}, process)
}

// read reads what is on disk of what a start has written, of a runner that is gone. The files are this
// worker's to remove.
func (r *Remote) read(id wire.ID, process journal.Started) (stdout, stderr journal.Output) {
	r.left.Store(true)
	paths := r.shelves(id, process)
	for i, output := range []*journal.Output{&stdout, &stderr} {
		p, err := partOf(paths[i], 0, mostLeft)
		if err != nil {
			r.config.Logger.Warn("what a job has written can't be read", "job", id.Job, "error", err)
		}
		*output = journal.Output{Kept: p.Bytes, Size: p.Size}
	}
	return stdout, stderr
}

// shelves are the files of a start; where its process is not known any more, those that are there.
func (r *Remote) shelves(id wire.ID, process journal.Started) (paths [2]string) {
	folder := filepath.Join(r.config.Dir, wire.OutputFolder)
	for i, name := range wire.OutputFiles(id, process) {
		if there, _ := fs.Glob(os.DirFS(folder), name); len(there) > 0 {
			name = there[0]
		}
		paths[i] = filepath.Join(folder, name)
	}
	return paths
}

// Forget implements jobexec.Keeper. What a runner has on disk it removes itself; what one that is
// gone has left is removed here, of all attempts of the claim.
func (r *Remote) Forget(job int64, token string, attempt int) {
	r.connecting.Lock() // a runner that is being connected has it, too
	r.newest().forget(wire.ID{Job: job, Token: token, Attempt: attempt})
	r.connecting.Unlock()
	if r.left.Load() {
		r.sweep(func(id wire.ID) bool { return id.Job == job && id.Token == token })
	}
}

// Sweep implements jobexec.Keeper.
func (r *Remote) Sweep(needed func(job int64, token string, attempt int) bool) {
	r.sweep(func(id wire.ID) bool { return !needed(id.Job, id.Token, id.Attempt) })
}

// sweep removes the files of starts of which nobody needs the output any more.
func (r *Remote) sweep(over func(wire.ID) bool) {
	folder := filepath.Join(r.config.Dir, wire.OutputFolder)
	files, err := os.ReadDir(folder)
	for _, file := range files {
		if id, ok := wire.OutputOf(file.Name()); ok && over(id) {
			err = errors.Join(err, os.Remove(filepath.Join(folder, file.Name())))
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.config.Logger.Warn("output of jobs that have ended can't be removed", "error", err)
	}
}

// Adopt implements jobexec.Runner.
func (r *Remote) Adopt(of jobexec.Spec, started journal.Started) (jobexec.Process, bool) {
	p := newProcess(claimOf(&of))
	p.since.Store(beganAt(&of, started))
	p.begin(started, nil)
	if !p.outlive(r) {
		return nil, false
	}
	return p, true
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

// Written implements jobexec.Watcher.
func (r *Remote) Written(ctx context.Context, g jobexec.Glance) (w jobexec.Written, err error) {
	id := wire.ID{Job: g.Job, Token: g.Token, Attempt: g.Attempt}
	if l := r.newest(); l.has(id) {
		m, err := l.ask(ctx, wire.Message{Kind: wire.Peek, ID: id, Peek: &wire.Glance{From: g.From, Most: g.Most}})
		if err == nil {
			return jobexec.Written{jobexec.Part(m.Peek.Parts[0]), jobexec.Part(m.Peek.Parts[1])}, nil
		}
		if !errors.Is(err, errLost) {
			return w, err
		}
	}
	for i, path := range r.shelves(id, g.Started) { // its runner is gone
		if w[i], err = partOf(path, g.From[i], g.Most); err != nil {
			return w, err
		}
	}
	return w, nil
}

// has tells whether the runner has a job that is not known to have ended.
func (l *link) has(id wire.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.processes[id] != nil
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
