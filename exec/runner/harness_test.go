package runner

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/host"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// hung is how long a wait may take: it ends a test that hangs, and is far more than any takes.
const hung = 2 * time.Minute

// roleVariable makes the test binary a runner, or a worker that starts jobs
// through one.
const roleVariable = "RUNNER_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		// A runner ends in its own time.
		goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("jobd/exec/runner.reap"))
	case "runner":
		exitOn(host.Serve(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	case "worker":
		exitOn(beWorker(os.Args[1]))
	case "impostor":
		exitOn(beImpostor(os.Args[1], os.Args[2]))
	case "sleeper":
		_, _ = os.Stdin.Read(make([]byte, 1)) // for good: it is a pipe
	case "intruder":
		exitOn(beIntruder(os.Args[1]))
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// testConfig has the test binary as the runner.
func testConfig(dir string) Config {
	return Config{
		Dir: dir, Logger: slog.New(slog.DiscardHandler),
		Path: "/usr/bin/env", Command: []string{"env", roleVariable + "=runner", "/proc/self/exe"},
	}
}

// workerToken is that of the claims of a worker in another process.
const workerToken = "@worker234"

// beWorker starts the jobs whose scripts are on stdin, and says of each when it runs; then it waits
// to be killed. A script may begin with its limits, as in "1s 2s: ".
func beWorker(dir string) error {
	remote, err := Open(workerConfig(dir))
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for job := int64(1); lines.Scan(); job++ {
		limits, text, limited := strings.Cut(lines.Text(), ": ")
		if !limited {
			limits, text = "0s 0s", lines.Text()
		}
		spec := script(text)
		spec.Job, spec.Token, spec.Attempt = job, workerToken, 1
		timeout, kill, _ := strings.Cut(limits, " ")
		var problems [2]error
		spec.Timeout, problems[0] = time.ParseDuration(timeout)
		spec.KillAfter, problems[1] = time.ParseDuration(kill)
		if err := errors.Join(problems[:]...); err != nil {
			return err
		}
		p, err := ask(remote, spec)
		if err != nil {
			return err
		}
		<-p.Begun()
		fmt.Println(job)
	}
	select {}
}

// hold takes the journal's lock for this process, as a worker does that opens its journal; the process
// keeps it.
func hold(dir string) error {
	fd, err := unix.Open(filepath.Join(dir, wire.LockFile), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil && err != unix.EWOULDBLOCK {
		return err
	}
	return nil
}

func workerConfig(dir string) Config {
	path, err := os.Executable()
	if err := errors.Join(err, hold(dir)); err != nil {
		panic(err)
	}
	c := testConfig(dir)
	c.Command[2] = path
	return c
}

func open(t *testing.T, dir string) *Remote {
	t.Helper()
	return openAs(t, workerConfig(dir))
}

// openAs is open with a configuration of the test's.
func openAs(t *testing.T, c Config) *Remote {
	t.Helper()
	remote := must.Get(Open(c))(t)
	t.Cleanup(func() { leave(t, remote) })
	return remote
}

// leave has the runner end: it keeps no outcome of a test.
func leave(t *testing.T, remote *Remote) {
	t.Helper()
	l := linkOf(remote)
	l.mu.Lock()
	owed := slices.Collect(maps.Keys(l.owed))
	l.mu.Unlock()
	for _, id := range owed {
		l.forget(id)
	}
	check.Do(t, remote.Close())
}

// ask asks the runner that is there for a start.
func ask(remote *Remote, spec jobexec.Spec) (jobexec.Process, error) {
	instance, err := remote.Instance()
	if err != nil {
		return nil, err
	}
	spec.Runner = instance
	return remote.Start(spec)
}

// asked is ask that must not be refused.
func asked(t *testing.T, remote *Remote, spec jobexec.Spec) jobexec.Process {
	t.Helper()
	p := must.Get(ask(remote, spec))(t)
	return p
}

// begin starts a job under a number of its own.
func begin(t *testing.T, remote *Remote, job int64, text string) jobexec.Process {
	t.Helper()
	spec := script(text)
	spec.Job, spec.Attempt = job, 1
	p := asked(t, remote, spec)
	<-p.Begun()
	return p
}

// linkOf is the connection that the worker has to its runner.
func linkOf(remote *Remote) *link {
	remote.mu.Lock()
	defer remote.mu.Unlock()
	return remote.link
}

func script(text string) jobexec.Spec {
	return jobexec.Spec{Job: 1, Argv: []string{"/bin/sh", "-c", text}, Env: os.Environ(), MaxOutput: 1 << 20}
}

// wait waits for the end of a process.
func wait(p jobexec.Process) (journal.Done, error) {
	<-p.Ended()
	return p.Outcome()
}
