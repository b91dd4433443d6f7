package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
)

// mostPeeks is how many peeks the runner is asked for at once: their answers are in memory.
const mostPeeks = 16

// peekTimeout is how long a peek waits for a runner that stands still, or is asked for many.
const peekTimeout = 5 * time.Second

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

// peek asks the runner what a job has written. Those who can't be answered at once wait for those
// before them, and nobody for long.
func (l *link) peek(ctx context.Context, id wire.ID, g jobexec.Glance) (w jobexec.Written, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, peekTimeout, errSilent)
	defer cancel()
	select {
	case l.peeking <- struct{}{}:
	case <-l.lost:
		return w, errLost
	case <-ctx.Done():
		return w, context.Cause(ctx)
	}
	answer := make(chan wire.Message, 1)
	l.mu.Lock()
	if !l.alive() {
		l.mu.Unlock()
		return w, errLost
	}
	l.glances = append(l.glances, answer)
	l.post(wire.Message{Kind: wire.Peek, ID: id, Peek: &wire.Glance{From: g.From, Most: g.Most}})
	l.mu.Unlock()
	select {
	case m, answered := <-answer:
		if !answered {
			return w, errLost
		}
		if m.Text != "" {
			return w, errors.New(m.Text)
		}
		for i, p := range m.Peek.Parts {
			w[i] = jobexec.Part(p)
		}
		return w, nil
	case <-ctx.Done():
		return w, context.Cause(ctx)
	}
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
