package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"syscall"

	jobexec "jobd/exec"
	"jobd/journal"
)

// ownChildren starts jobs as os/exec does, as children of this process. They die with the worker: there is nothing to remember.
type ownChildren struct{}

func (ownChildren) Instance() (string, error)                { return "own", nil }
func (ownChildren) Ended(string) bool                        { return false }
func (ownChildren) Recall([]jobexec.Spec) []jobexec.Recalled { return nil }
func (ownChildren) Forget(int64, string, int)                {}
func (ownChildren) Sweep(func(int64, string, int) bool)      {}

func (ownChildren) Adopt(jobexec.Spec, journal.Started) (jobexec.Process, bool) { return nil, false }

func (ownChildren) Left(int64, string, int, journal.Started) (stdout, stderr journal.Output) { return }

func (ownChildren) Usage(of []journal.Started) []*jobexec.Usage {
	return make([]*jobexec.Usage, len(of))
}

func (ownChildren) Written(context.Context, jobexec.Glance) (w jobexec.Written, err error) {
	return w, nil
}
func (ownChildren) Close() error { return nil }
func (ownChildren) Start(spec jobexec.Spec) (jobexec.Process, error) {
	c := &ownChild{begun: make(chan struct{}), ended: make(chan struct{})}
	go c.run(spec)
	return c, nil
}

// ownChild is one of them.
type ownChild struct {
	begun, ended chan struct{}
	pid          int
	done         journal.Done
	err          error
}

// run starts the process and waits for its end.
func (c *ownChild) run(spec jobexec.Spec) {
	defer spec.Tell(jobexec.News{Job: spec.Job, Token: spec.Token, Attempt: spec.Attempt, Ended: true})
	defer close(c.ended)
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Env, spec.Dir, &stdout, &stderr
	if c.err = cmd.Start(); c.err != nil {
		close(c.begun)
		return
	}
	c.pid = cmd.Process.Pid
	close(c.begun)
	c.err = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	c.done = journal.Done{Result: "ok", Code: &code}
}

func (c *ownChild) Begun() <-chan struct{}         { return c.begun }
func (c *ownChild) Ended() <-chan struct{}         { return c.ended }
func (c *ownChild) Outcome() (journal.Done, error) { return c.done, c.err }

func (c *ownChild) Started() journal.Started {
	return journal.Started{Pid: c.pid, StartTime: 1, BootID: "own"}
}

// Signal is for nobody here.
func (c *ownChild) Signal(signo int) error {
	return errors.Join(syscall.Kill(c.pid, syscall.Signal(signo)))
}
