package systemd

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A worker says that it starts, serves, reads its configuration, starts again, and ends, each when
// that is so; its jobs are not told where to say the like.
func TestAWorkerSaysHowItStands(t *testing.T) {
	t.Parallel()
	db, m := harness.NewDatabase(t), newManager(t, 0)
	command, running, open := gated(t)
	settings := db.Worker(t, "worker", command, map[string]int{"a": 1, "b": 1}).With(harness.Settings{"on_stop": "handover"})
	worker := m.launch(harness.Program(t, "jobd"), settings)

	first, next := m.await(0, "STATUS=starting")
	check.Contains(t, first, "EXTEND_TIMEOUT_USEC=", "at first it said …, and asked for no time")
	_, next = m.await(next, "READY=1")
	conn, err := net.Dial("tcp", worker.Addr)
	if err != nil {
		t.Errorf("it is ready, and nobody can connect: %v", err)
	} else {
		conn.Close()
	}
	_, next = m.await(next, "STATUS=targets: 2, running: 0, claimed: 0")

	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	harness.AwaitFile(t, running)
	_, next = m.await(next, "STATUS=targets: 2, running: 1, claimed: 0")

	worker.Signal(t, syscall.SIGHUP)
	reloading, next := m.await(next, "RELOADING=1")
	isNow(t, reloading)
	_, next = m.await(next, "READY=1")

	harness.Dial(t, worker.Addr).Ask(t, "restart", nil)
	again, next := m.await(next, "STATUS=restarting")
	if !strings.HasPrefix(again, "RELOADING=1\nMONOTONIC_USEC=") || !strings.Contains(again, "EXTEND_TIMEOUT_USEC=") {
		t.Errorf("when it starts again it says %q", again)
	}
	_, next = m.await(next, "STATUS=starting")
	_, next = m.await(next, "READY=1")
	open()
	if row := db.AwaitDone(t, 1); strings.Contains(harness.Text(row.Stdout), "NOTIFY_SOCKET") {
		t.Errorf("the job's environment is %s", *row.Stdout)
	}

	worker.Signal(t, syscall.SIGTERM)
	if last, _ := m.await(next, "STOPPING=1"); !strings.Contains(last, "EXTEND_TIMEOUT_USEC=") {
		t.Errorf("at last it says %q, and asks for no time", last)
	}
	check.Equal(t, worker.ExitCode(t), 0, "exit code")
	if strings.Contains(strings.Join(m.messages(0), "\n"), "WATCHDOG") {
		t.Error("it gives signs of life that nobody wants")
	}
}

// isNow checks that a message bears a time of the monotonic clock that has not long passed: not later
// than now, and not before this machine's start by that clock.
func isNow(t *testing.T, message string) {
	t.Helper()
	var now unix.Timespec
	must.Do(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
	_, text, _ := strings.Cut(message, "\nMONOTONIC_USEC=")
	at, err := strconv.ParseInt(text, 10, 64)
	if err != nil || at <= 0 || at > now.Nano()/1000 {
		t.Errorf("it is %d µs, and it said %q", now.Nano()/1000, message)
	}
}

// While a worker waits for what runs it asks for more time, again and again.
func TestAWorkerThatDrainsAsksForTime(t *testing.T) {
	t.Parallel()
	db, m := harness.NewDatabase(t), newManager(t, watched)
	command, running, open := gated(t)
	settings := db.Worker(t, "worker", command, map[string]int{"a": 1}).With(harness.Settings{"shutdown_timeout": "0"})
	worker := m.launch(harness.Program(t, "jobd"), settings).Ready(t)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	harness.AwaitFile(t, running)
	worker.Signal(t, syscall.SIGTERM)
	_, next := m.await(0, "STOPPING=1")
	for range 3 {
		_, next = m.await(next, "EXTEND_TIMEOUT_USEC=30000000")
	}
	open()
	check.Equal(t, worker.ExitCode(t), 0, "exit code")
	db.AwaitDone(t, 1)
}

// What keeps a worker from its work is in its status line.
func TestTroubleIsInTheStatusLine(t *testing.T) {
	t.Parallel()
	db, m := harness.NewDatabase(t), newManager(t, 0)
	settings := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"mysql_host": "127.0.0.1", "mysql_port": harness.FreePort(t), "master_host": "127.0.0.1", "master_port": harness.FreePort(t)})
	m.launch(harness.Program(t, "jobd"), settings)
	said, _ := m.await(0, "STATUS=targets: 1, running: 0, claimed: 0; the database is away since ")
	if !strings.Contains(said, "connection refused") || !strings.Contains(said, "; it is not registered with the master 127.0.0.1:") {
		t.Errorf("it said %q", said)
	}
}

// A start that fails says that it starts, and nothing else.
func TestAStartThatFails(t *testing.T) {
	t.Parallel()
	m := newManager(t, 0)
	settings := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}
	worker := m.launch(harness.Program(t, "jobd"), settings)
	check.Equal(t, worker.ExitCode(t), 2, "exit code")
	if said := strings.Join(m.messages(0), "\n"); strings.Contains(said, "READY") {
		t.Errorf("it said %q", said)
	}
}

// A master says the same of itself.
func TestAMasterSaysHowItStands(t *testing.T) {
	t.Parallel()
	db, m := harness.NewDatabase(t), newManager(t, watched)
	settings := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}
	master := m.launch(harness.Program(t, "jobd-master"), settings)
	_, next := m.await(0, "READY=1")
	_, next = m.await(next, "STATUS=no worker is registered")
	m.alive(2)
	db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1, "b": 1}).With(harness.MasterOf(master)).StartWorker(t)
	_, next = m.await(next, "STATUS=workers: 1, targets: 2")
	master.Signal(t, syscall.SIGHUP)
	reloading, next := m.await(next, "RELOADING=1")
	isNow(t, reloading)
	_, next = m.await(next, "READY=1")
	master.Signal(t, syscall.SIGTERM)
	m.await(next, "STOPPING=1")
	check.Equal(t, master.ExitCode(t), 0, "exit code")
}

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
			if out := worker.Output(); !strings.Contains(out, "goroutine ") || !strings.Contains(out, "a loop hangs") || !strings.Contains(out, loop) {
				t.Errorf("what hung is not to be seen in what it wrote: %s", out)
			}
			harness.Disarm(t, settings["journal_dir"])
			open()
			next := len(m.messages(0))
			again := m.launch(harness.Armed(t), settings)
			m.await(next, "READY=1")
			db.AwaitCount(t, 4, "status = 'done' AND result = 'ok'")
			again.Signal(t, syscall.SIGTERM)
			check.Equal(t, again.ExitCode(t), 0, "exit code")
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
	if os.Geteuid() == 0 {
		harness.SmallDisk(t, s.settings["journal_dir"], "64m")
	}
	s.worker = s.manager.launch(harness.Program(t, "jobd"), s.settings).Ready(t)
	s.db.Insert(t, 1, "a", "waiting")
	s.db.Insert(t, 2, "a", "waiting")
	harness.Dial(t, s.worker.Addr).Ask(t, "poll", nil)
	harness.AwaitFile(t, running)
	return s
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

// Each loop of a master that stands still ends the signs of life, too. Ended as systemd does it and
// started again, it has its worker back, and pokes reach it.
func TestAMastersLoopThatHangs(t *testing.T) {
	t.Parallel()
	for loop, nth := range map[string]int{"workers": 2, "accept": 3} {
		t.Run(loop, func(t *testing.T) {
			t.Parallel()
			db, m := harness.NewDatabase(t), newManager(t, watched)
			armed := fmt.Sprintf("env TEST_HANGS=%s:%d %s", loop, nth, harness.ArmedMaster(t))
			settings := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}
			master := m.launch(armed, settings)
			_, next := m.await(0, "READY=1")
			db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).With(harness.MasterOf(master)).StartWorker(t)
			m.await(next, "STATUS=workers: 1, targets: 1") // its first piece of work, and its first link
			if loop == "accept" {
				awaitHang(t, m, master.Addr, loop, nil, "")
			} else {
				poke(t, master)
				harness.Until(t, func() string {
					if told := m.hung(); len(told) == 0 || !strings.HasSuffix(told[0], ": "+loop) {
						return fmt.Sprintf("it said %q", told)
					}
					return ""
				})
			}
			if code := aborted(t, master, m); code != -1 {
				t.Errorf("it ended with code %d, want a signal: %s", code, master.Output())
			}
			if out := master.Output(); !strings.Contains(out, "goroutine ") || !strings.Contains(out, "a loop hangs") || !strings.Contains(out, "loop="+loop) {
				t.Errorf("what hung is not to be seen in what it wrote: %s", out)
			}
			next = len(m.messages(0))
			again := m.launch(harness.Program(t, "jobd-master"), settings)
			m.await(next, "STATUS=workers: 1, targets: 1")
			db.Insert(t, 1, "a", "waiting")
			poke(t, again)
			db.AwaitDone(t, 1)
			again.Signal(t, syscall.SIGTERM)
			check.Equal(t, again.ExitCode(t), 0, "exit code")
		})
	}
}

func poke(t *testing.T, master *harness.Daemon) {
	t.Helper()
	harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"a"}})
}
