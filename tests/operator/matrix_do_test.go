package operator

import (
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// acts are the commands that change something, in this order, each with what it says and what its
// row becomes. With the database away only what a worker has by itself can be cancelled.
var acts = []struct {
	words, says, row string
	id               int64
	away             string // what is said without the database
}{
	{"cancel 10", "ignored", "ignored", 10, "job 10"},
	{"cancel 3", "ignored", "ignored", 3, "job 3"},
	{"cancel 4", "ignored", "ignored", 4, "job 4"},
	{"retry 10", "waiting", "waiting", 10, "the table can't be read now"},
	{"retry 2", "waiting", "waiting", 2, "the table can't be read now"},
	{"cancel 1 --grace 1s", "cancelling", "done", 1, "cancelling"},
}

// act carries them all out.
func (s *scene) act(t *testing.T, d *harness.Daemon, flags ...string) {
	t.Helper()
	for _, a := range acts {
		got := jobctl(t, d, append(flags, strings.Fields(a.words)...)...)
		if !strings.Contains(got.stdout, a.says) || strings.Contains(got.stderr, "job ") {
			t.Errorf("%s: %+v", a.words, got)
		}
		s.AwaitStatus(t, a.id, a.row)
	}
}

func TestAnOperatorActsThroughOneWorker(t *testing.T) {
	t.Parallel()
	s := newScene(t, 1, 20)
	s.act(t, s.workers[0])
}

func TestAnOperatorActsThroughAMaster(t *testing.T) {
	t.Parallel()
	s := newScene(t, 3, 20)
	s.act(t, s.master, "--master")
}

// What the worker that hangs might have is left alone and said; it has nothing of these jobs.
func TestAnOperatorActsBesideAnOriginalWorker(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2, 20)
	original(t, s.master, "old-1")
	harness.AwaitWorkers(t, s.master, "", 3)
	s.act(t, s.master, "--master")
}

// A retry and a cancel need the worker that has the job, and wait for no other one without end.
func TestAnOperatorActsBesideAWorkerThatHangs(t *testing.T) {
	t.Parallel()
	s := newScene(t, 3, 20)
	s.workers[2].Signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { s.workers[2].Signal(t, syscall.SIGCONT) })
	got := jobctl(t, s.master, "--master", "retry", "2")
	if !strings.Contains(got.stdout, "waiting") {
		t.Errorf("retry: %+v", got)
	}
	s.AwaitStatus(t, 2, "waiting")
	got = jobctl(t, s.master, "--master", "cancel", "1", "--grace", "1s")
	if !strings.Contains(got.stdout, "cancelling") {
		t.Errorf("cancel: %+v", got)
	}
	s.AwaitStatus(t, 1, "done")
}

// actsBesideAMillionRows counts the rows that the server reads for that.
func actsBesideAMillionRows(t *testing.T, s *scene) {
	before := s.rowsRead(t)
	s.act(t, s.master, "--master")
	if read := s.rowsRead(t) - before; read > 30_000*len(acts) {
		t.Errorf("the server has read %d rows for %d commands", read, len(acts))
	}
}

// Without the database what a worker has is cancelled, and of all else it is said that it is not.
func TestAnOperatorActsWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	s := newScene(t, 2, 20)
	if err := s.server.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, a := range acts {
		got := jobctl(t, s.master, append([]string{"--master"}, strings.Fields(a.words)...)...)
		if all := got.stdout + got.stderr; !strings.Contains(all, a.away) || (got.code == 0) != (a.away == a.says) {
			t.Errorf("%s: %+v", a.words, got)
		}
	}
}
