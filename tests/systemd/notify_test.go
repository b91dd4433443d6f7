package systemd

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

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
	if !strings.Contains(first, "EXTEND_TIMEOUT_USEC=") {
		t.Errorf("at first it said %q, and asked for no time", first)
	}
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
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(strings.Join(m.messages(0), "\n"), "WATCHDOG") {
		t.Error("it gives signs of life that nobody wants")
	}
}

// isNow checks that a message bears a time of the monotonic clock that has not long passed: not later
// than now, and not before this machine's start by that clock.
func isNow(t *testing.T, message string) {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
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
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
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
	if !strings.Contains(said, "connection refused") || !strings.Contains(said, "; not registered with the master 127.0.0.1:") {
		t.Errorf("it said %q", said)
	}
}

// A start that fails says that it starts, and nothing else.
func TestAStartThatFails(t *testing.T) {
	t.Parallel()
	m := newManager(t, 0)
	settings := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}
	worker := m.launch(harness.Program(t, "jobd"), settings)
	if code := worker.ExitCode(t); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
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
	if code := master.ExitCode(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A daemon that nobody wants to hear says nothing, and works.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	m := newManager(t, watched)
	os.Remove(m.path)
	settings := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}
	master := m.launch(harness.Program(t, "jobd-master"), settings).Ready(t)
	harness.Until(t, func() string {
		if !strings.Contains(master.Output(), "the service manager can't be told how this daemon stands") {
			return "nothing of it is in the log: " + master.Output()
		}
		return ""
	})
	if n := strings.Count(master.Output(), "can't be told"); n != 1 {
		t.Errorf("it is in the log %d times", n)
	}
	out, err := exec.Command(harness.Program(t, "jobctl"), "--config=", "--port", settings["port"], "--master", "status").CombinedOutput()
	if err != nil {
		t.Errorf("status: %v: %s", err, out)
	}
}
