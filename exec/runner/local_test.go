package runner

import (
	"os"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

func newLocal(t *testing.T) *Local {
	t.Helper()
	return newLocalWith(t, func(*Local) {})
}

// newLocalWith has a runner changed before it runs.
func newLocalWith(t *testing.T, change func(*Local)) *Local {
	t.Helper()
	local, err := NewLocal()
	if err != nil {
		t.Fatal(err)
	}
	change(local)
	returned := make(chan error)
	go func() { returned <- local.Run() }()
	t.Cleanup(func() {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
		if err := <-returned; err != nil {
			t.Error(err)
		}
	})
	return local
}

func script(text string) jobexec.Spec {
	return jobexec.Spec{Job: 1, Argv: []string{"/bin/sh", "-c", text}, Env: os.Environ(), MaxOutput: 1 << 20}
}

// job is a child as a process that can be waited for.
type job struct {
	*child
	isBegun, isEnded chan struct{}
}

func (j job) begun(*child) { close(j.isBegun) }
func (j job) ended(*child) { close(j.isEnded) }

func (j job) Begun() <-chan struct{}         { return j.isBegun }
func (j job) Ended() <-chan struct{}         { return j.isEnded }
func (j job) Started() journal.Started       { return j.child.started }
func (j job) Outcome() (journal.Done, error) { return j.child.done, nil }

func start(t *testing.T, local *Local, spec jobexec.Spec) jobexec.Process {
	t.Helper()
	j := job{isBegun: make(chan struct{}), isEnded: make(chan struct{})}
	c, err := local.Start(spec, j)
	if err != nil {
		t.Fatal(err)
	}
	j.child = c
	return j
}

// wait waits for the end of a process.
func wait(p jobexec.Process) (journal.Done, error) {
	<-p.Ended()
	return p.Outcome()
}

func run(t *testing.T, local *Local, spec jobexec.Spec) journal.Done {
	t.Helper()
	done, err := wait(start(t, local, spec))
	if err != nil {
		t.Errorf("the outcome of a child is not known: %v", err)
	}
	return done
}
