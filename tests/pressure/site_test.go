package pressure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// site is a database behind a link that can be cut, and launchers that wait at a gate.
type site struct {
	*harness.Database
	t    *testing.T
	link harness.Link
	gate string // jobs that wait go on when this file exists
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Database: harness.NewDatabase(t), t: t, gate: filepath.Join(t.TempDir(), "gate")}
	s.link = harness.NewLink(t, s.Addr)
	return s
}

// gated is a launcher whose jobs wait until the gate is open, or the test has ended.
func (s *site) gated() string {
	waits := fmt.Sprintf("while [ -d %s ] && [ ! -e %s ]; do sleep 0.2; done", filepath.Dir(s.gate), s.gate)
	return harness.Script(s.t, waits) + " {id}"
}

// open opens the gate.
func (s *site) open() { harness.Touch(s.t, s.gate) }

// start starts a worker that reaches the database over the link. Its jobs find the gate open when the test ends.
func (s *site) start(name, launcher string, targets map[string]int, others ...harness.Settings) *worker {
	s.t.Helper()
	way := s.link.ToDatabase().With(harness.Settings{"log_level_console": "warn"})
	settings := s.Worker(s.t, name, launcher, targets).With(way).With(others...)
	w := &worker{Daemon: settings.StartWorker(s.t), t: s.t}
	s.t.Cleanup(func() { _ = os.WriteFile(s.gate, nil, 0o600) }) // the folder may be gone already
	w.client = harness.Dial(s.t, w.Addr)
	return w
}

// held is how many rows are claimed and not done.
func (s *site) held() int { return s.Count(s.t, "status IN ('accepted', 'running')") }

// worker is a jobd and a client of it.
type worker struct {
	*harness.Daemon
	t      *testing.T
	client *harness.Wire
}

// poll asks for a look at the table, so many times.
func (w *worker) poll(times int) {
	w.t.Helper()
	for range times {
		if answer := w.client.Ask(w.t, "poll", nil); answer.Error != "" {
			w.t.Fatalf("poll: %s", answer.Error)
		}
	}
}

// status is what the worker says of itself.
type status struct {
	Targets map[string]struct{ Length int }
	Clients int `json:"jobPromisesCount"`
	Journal struct{ Events, Mirrored int }
	Doubted int `json:"claimsInDoubt"`
}

func (w *worker) status() (s status) {
	w.t.Helper()
	w.client.Ask(w.t, "status", nil).Decode(w.t, &s)
	return s
}

// length is how many jobs all queues hold, those that run included.
func (s status) length() (n int) {
	for _, target := range s.Targets {
		n += target.Length
	}
	return n
}

// owed is how many events the table does not show yet.
func (s status) owed() int { return s.Journal.Events - s.Journal.Mirrored }

// awaitLength waits until the queues hold so many jobs.
func (w *worker) awaitLength(n int) {
	w.t.Helper()
	harness.Until(w.t, func() string {
		if s := w.status(); s.length() != n {
			return fmt.Sprintf("%d jobs in the queues, not %d", s.length(), n)
		}
		return ""
	})
}

// atMost fails the test where there is more of something than may be.
func atMost[N int | int64](t *testing.T, what string, got, bound N) {
	t.Helper()
	if got > bound {
		t.Errorf("%s: %d, and at most %d may be", what, got, bound)
	}
}

// descriptors is how many files a process has open.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	files := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	return len(files)
}

// goroutines ends a daemon with a list of its goroutines and counts them.
func goroutines(t *testing.T, d *harness.Daemon) int {
	t.Helper()
	d.Signal(t, syscall.SIGQUIT)
	d.ExitCode(t)
	n := strings.Count(d.Output(), "\ngoroutine ")
	if n == 0 {
		t.Fatalf("no list of goroutines:\n%s", d.Output())
	}
	return n
}

// own is the memory of a worker and its runner, without the pages of their program, which they share.
func (w *worker) own() int64 {
	return harness.MemoryOwn(w.t, w.Pid) + harness.MemoryOwn(w.t, w.Runner(w.t))
}

// ignoreRest ends what waits still. The server may end this statement instead of a worker's where they lock rows in
// another order: then it is repeated, as applications do.
func (s *site) ignoreRest() {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if _, err := s.Admin.ExecContext(s.t.Context(), "UPDATE jobs SET status = 'ignored' WHERE status = 'waiting'"); err != nil {
			return err.Error()
		}
		return ""
	})
}
