package lifecycle

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A signal that comes while the worker still waits for a database that does not answer is heeded
// when it is up; it does not end the worker in the middle of its start.
func TestSIGHUPDuringTheStart(t *testing.T) {
	t.Parallel()
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	_, port, _ := strings.Cut(silent.Addr().String(), ":")
	settings := harness.NewDatabase(t).Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"mysql_host": "127.0.0.1", "mysql_port": port})
	worker := harness.Launch(t, "jobd", settings.Write(t), settings.Addr())
	harness.AwaitFile(t, filepath.Join(settings["journal_dir"], "lock"))
	worker.Signal(t, syscall.SIGHUP)
	worker.Ready(t)
	worker.Signal(t, syscall.SIGTERM)
	if code := worker.ExitCode(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// The worker's own timers need not be precise, those of its jobs are as everybody's.
func TestTimersOfTheWorkerMayRingLate(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "worker", harness.Script(t, "cat /proc/self/timerslack_ns")+" {id}", map[string]int{"a": 1}).StartWorker(t)
	db.Insert(t, 1, "a", "manual")
	var answer harness.Jobs
	harness.Dial(t, worker.Addr).Ask(t, "run-manual", map[string]any{"ids": []int64{1}}).Decode(t, &answer)
	if got := answer.Jobs["1"].Stdout; got != "50000\n" {
		t.Errorf("a job's timers may ring %q ns late, want 50000", got)
	}
	slack, err := os.ReadFile(worker.Proc("timerslack_ns"))
	if errors.Is(err, os.ErrPermission) {
		t.Skip("how late the worker's timers may ring only root may see")
	}
	if err != nil || string(slack) != "2000000\n" {
		t.Errorf("the worker's timers may ring %q ns late, want 2000000: %v", slack, err)
	}
}
