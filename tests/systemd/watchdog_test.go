package systemd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// watched is the watchdog of the tests: a loop may be at one piece of work for half of it, and a sign
// of life comes each eighth.
const watched = 4 * time.Second

// beyond is how many signs of life are more than a watchdog's time.
const beyond = 12

// Each loop of a worker that stands still ends the signs of life. Ended as systemd does it, the
// worker is started again, by no means with the exit code of a wrong configuration, and its jobs go
// on.
func TestALoopThatHangs(t *testing.T) {
	t.Parallel()
	for loop, nth := range map[string]int{"worker": 2, "mirror": 2, "runner link": 2, "accept": 6} {
		t.Run(loop, func(t *testing.T) {
			t.Parallel()
			db, m := harness.NewDatabase(t), newManager(t, watched)
			command, running, open := gated(t)
			settings := db.Worker(t, "worker", command, map[string]int{"a": 1})
			harness.Arm(t, settings["journal_dir"], loop+"-hangs", nth)
			worker := m.launch(harness.Armed(t), settings)
			m.await(0, "READY=1")
			for id := range int64(4) {
				db.Insert(t, id+1, "a", "waiting")
			}
			awaitHang(t, m, worker.Addr, loop, open, running)
			if code := aborted(t, worker, m); code != -1 {
				t.Errorf("it ended with code %d, want a signal: %s", code, worker.Output())
			}
			if out := worker.Output(); !strings.Contains(out, "goroutine ") || !strings.Contains(out, "loop stands still") || !strings.Contains(out, loop) {
				t.Errorf("what hung is not to be seen in what it wrote: %s", out)
			}
			harness.Disarm(t, settings["journal_dir"])
			open()
			next := len(m.messages(0))
			again := m.launch(harness.Armed(t), settings)
			m.await(next, "READY=1")
			db.AwaitCount(t, 4, "status = 'done' AND result = 'ok'")
			again.Signal(t, syscall.SIGTERM)
			if code := again.ExitCode(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// awaitHang gives the loops something to do until one is said to stand still: clients connect, and
// jobs are run.
func awaitHang(t *testing.T, m *manager, addr, loop string, open func(), running string) {
	t.Helper()
	if loop != "accept" {
		harness.Dial(t, addr).Ask(t, "poll", nil)
		if loop == "runner link" || loop == "mirror" {
			open()
		}
	}
	harness.Until(t, func() string {
		if loop == "accept" {
			if conn, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
				conn.Close()
			}
		}
		for _, said := range m.hung() {
			if strings.HasSuffix(said, ": "+loop) {
				return ""
			}
			t.Fatalf("it is another loop that hangs: %q", said)
		}
		return "nothing hangs"
	})
}

// aborted waits for as long as a watchdog does, in which there must be no sign of life, and ends the
// daemon then, as systemd does.
func aborted(t *testing.T, d *harness.Daemon, m *manager) (code int) {
	t.Helper()
	m.await(0, "STATUS=hangs")
	from := len(m.messages(0))
	<-time.After(watched)
	if said := strings.Join(m.messages(from), "\n"); strings.Contains(said, "WATCHDOG=1") {
		t.Errorf("it hangs, and gives signs of life: %q", said)
	}
	d.Signal(t, syscall.SIGABRT)
	return d.ExitCode(t)
}

// What is outside of a worker is no reason to start it again, however long it lasts.
func TestWhatIsOutsideIsNoReason(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(t *testing.T, s *site) (back func()){
		"the database is away": func(t *testing.T, s *site) func() {
			s.link.Refuse(true)
			s.link.Cut()
			return func() { s.link.Back() }
		},
		"the table is locked": func(t *testing.T, s *site) func() {
			conn := must.Get(s.db.Admin.Conn(t.Context()))(t)
			must.Get(conn.ExecContext(t.Context(), "LOCK TABLES jobs WRITE"))(t)
			return func() {
				if _, err := conn.ExecContext(context.Background(), "UNLOCK TABLES"); err != nil {
					t.Error(err)
				}
				conn.Close()
			}
		},
		"the journal's disk is full": func(t *testing.T, s *site) func() {
			if os.Geteuid() != 0 {
				t.Skip("only root can mount a small disk")
			}
			filler := filepath.Join(s.settings["journal_dir"], "filler")
			fill(t, filler)
			return func() { os.Remove(filler) }
		},
		"the runner is stopped": func(t *testing.T, s *site) func() {
			runner := s.worker.Runner(t)
			must.Do(t, syscall.Kill(runner, syscall.SIGSTOP))
			return func() { _ = syscall.Kill(runner, syscall.SIGCONT) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			back := away(t, s)
			s.open()
			s.manager.alive(beyond)
			back()
			s.db.AwaitDone(t, 1)
			harness.Dial(t, s.worker.Addr).Ask(t, "poll", nil)
			s.db.AwaitDone(t, 2)
			if told := s.manager.hung(); len(told) > 0 {
				t.Errorf("it said %q", told)
			}
		})
	}
}

// site is a watched worker with a job that runs and one that waits, on a small disk and behind a link
// that breaks on demand.
type site struct {
	db       *harness.Database
	link     harness.Link
	manager  *manager
	settings harness.Settings
	worker   *harness.Daemon
	open     func() // ends the jobs
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{db: harness.NewDatabase(t), manager: newManager(t, watched)}
	s.link = harness.NewLink(t, s.db.Addr)
	command, running, open := gated(t)
	s.open = open
	s.settings = s.db.Worker(t, "worker", command, map[string]int{"a": 1}).With(harness.Settings{
		"mysql_host": "127.0.0.1", "mysql_port": strconv.Itoa(s.link.Port()), "journal_min_free": "1MiB", "prefetch": "0",
	})
	mount(t, s.settings["journal_dir"])
	s.worker = s.manager.launch(harness.Program(t, "jobd"), s.settings).Ready(t)
	s.db.Insert(t, 1, "a", "waiting")
	s.db.Insert(t, 2, "a", "waiting")
	harness.Dial(t, s.worker.Addr).Ask(t, "poll", nil)
	harness.AwaitFile(t, running)
	return s
}

// mount makes a folder a disk of 64 MiB. Only root can.
func mount(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o700))
	if os.Geteuid() != 0 {
		return
	}
	must.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=0700"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// fill writes a file until there is no room for another byte.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
}
