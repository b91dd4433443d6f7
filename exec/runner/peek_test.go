package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/proctest"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// look looks at what a job has written until its stdout ends as wanted.
func look(t *testing.T, remote *Remote, g jobexec.Glance, stdout string) jobexec.Written {
	t.Helper()
	for {
		w := must.Get(remote.Written(t.Context(), g))(t)
		if strings.HasSuffix(string(w[0].Bytes), stdout) {
			return w
		}
	}
}

// A job can be looked at while it runs, by many at once; it ends as ever.
func TestARunningJobIsLookedAt(t *testing.T) {
	t.Parallel()
	gate := fifo(t)
	remote := open(t, t.TempDir())
	p := begin(t, remote, 1, "echo out; echo err >&2; read line <"+gate+"; exit 3")
	g := jobexec.Glance{Job: 1, Attempt: 1, Most: 100}
	look(t, remote, g, "out\n")
	var group sync.WaitGroup
	for range 1000 {
		group.Go(func() {
			w, err := remote.Written(t.Context(), g)
			if err != nil || string(w[0].Bytes) != "out\n" || string(w[1].Bytes) != "err\n" || w[0].Size != 4 || w[0].At != 0 {
				t.Errorf("it has written %+v, %v", w, err)
			}
		})
	}
	group.Wait()
	g.From = [2]int64{1, -2}
	if w := look(t, remote, g, "ut\n"); w[0].At != 1 || w[1].At != 2 || string(w[1].Bytes) != "r\n" {
		t.Errorf("from further on: %+v", w)
	}
	l := linkOf(remote)
	if _, err := l.ask(t.Context(), wire.Message{Kind: wire.Peek, ID: wire.ID{Job: 2, Attempt: 1}, Peek: &wire.Glance{From: g.From, Most: g.Most}}); err == nil || errors.Is(err, errLost) {
		t.Errorf("a job that there is not: %v", err)
	}
	must.Do(t, os.WriteFile(gate, []byte("go\n"), 0))
	if done, err := wait(p); err != nil || *done.Code != 3 || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v, %v", done, err)
	}
}

// Many jobs that end at once with much output leave it with the runner until
// there is room for it.
func TestLargeOutputIsFetchedInTurn(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	const jobs, size = 3 * largeOutputs, 300_000
	var processes []jobexec.Process
	for job := range int64(jobs) {
		processes = append(processes, begin(t, remote, job, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' %d", size, job)))
	}
	type outcome struct {
		job  int64
		done journal.Done
	}
	outcomes := make(chan outcome)
	for job, p := range processes {
		go func() {
			done, _ := wait(p)
			outcomes <- outcome{int64(job), done}
		}()
	}
	l := linkOf(remote)
	held := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.later)
	}
	proctest.Until(t, "all but two large outputs are with the runner", func() bool { return held() == jobs-largeOutputs })
	for range jobs {
		o := <-outcomes
		if want := strings.Repeat(fmt.Sprint(o.job), size); string(o.done.Stdout.Kept) != want {
			t.Errorf("job %d: %d bytes came, want %d of its own", o.job, len(o.done.Stdout.Kept), size)
		}
		remote.Forget(o.job, "", 1)
	}
}

// The environment is sent once, and again when it changes.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	first, second := []string{"WHO=first"}, []string{"WHO=second"}
	for i, env := range [][]string{first, first, second, nil, second, first} {
		spec := jobexec.Spec{Job: int64(i), Attempt: 1, Argv: []string{"/bin/sh", "-c", "echo $WHO"}, Env: env, MaxOutput: 100}
		done, _ := wait(asked(t, remote, spec))
		remote.Forget(int64(i), "", 1)
		want := "\n"
		if env != nil {
			want = strings.TrimPrefix(env[0], "WHO=") + "\n"
		}
		check.Equal(t, string(done.Stdout.Kept), want, "start %d sees", i)
	}
}

// A start that was announced with another runner's name is not done: after a crash it would
// be looked for where it never was, and be repeated.
func TestAStartIsForTheRunnerThatWasAnnounced(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	spec := script("exit 0")
	spec.Job, spec.Attempt, spec.Runner = 1, 1, "another"
	if _, err := remote.Start(spec); !errors.Is(err, jobexec.ErrRunnerChanged) {
		t.Errorf("error %v", err)
	}
	must.Get(ask(remote, spec))(t)
}

func TestTheSocketIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	for _, name := range []string{wire.SocketFile, logFile} {
		info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		check.Equal(t, info.Mode().Perm(), 0o600, "%s has mode", name)
	}
}

func TestAFolderWithALongName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	must.Do(t, os.Mkdir(dir, 0o700))
	done := must.Get(wait(begin(t, open(t, dir), 1, "exit 0")))(t)
	check.Equal(t, *done.Code, 0, "error …, done %+v", done)
}

// A runner's own timers may ring late, its jobs' may not.
func TestAJobsTimersAreAsPreciseAsEverybodys(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	done, err := wait(begin(t, remote, 1, "read slack </proc/self/timerslack_ns; echo $slack"))
	if got := strings.TrimSpace(string(done.Stdout.Kept)); err != nil || got != strconv.Itoa(proc.UsualTimers) {
		t.Errorf("slack %q ns: %v", got, err)
	}
}

// A runner that stands still holds up nobody for ever, be it for a look or for a signal, and is asked for
// nothing more; nor do those who gave up stand in the way of others when it goes on.
func TestQuestionsToARunnerThatStandsStill(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	runner := remote.Standing().PID
	p := begin(t, remote, 1, "echo out; exec sleep 300")
	g := jobexec.Glance{Job: 1, Attempt: 1, Most: 100}
	look(t, remote, g, "out\n")
	proctest.Stop(t, runner)
	ctx, cancel := context.WithCancelCause(t.Context())
	gaveUp := errors.New("gave up")
	var group sync.WaitGroup
	for range 2 * mostAsked {
		group.Go(func() {
			if _, err := remote.Written(ctx, g); !errors.Is(err, gaveUp) {
				t.Errorf("error %v", err)
			}
		})
	}
	cancel(gaveUp)
	group.Wait()
	must.Do(t, unix.Kill(runner, unix.SIGCONT))
	look(t, remote, g, "out\n")
	proctest.Stop(t, runner)
	for range 3 {
		check.ErrorIs(t, p.Signal(15), errSilent)
	}
	l := linkOf(remote)
	l.mu.Lock()
	n := len(l.answers)
	l.mu.Unlock()
	check.Equal(t, n, 1, "it was asked for … signals")
	must.Do(t, unix.Kill(runner, unix.SIGCONT))
	done := must.Get(wait(p))(t)
	check.Equal(t, done.Signal, "SIGTERM", "done %+v", done)
}
