package lifecycle

import (
	"net"
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
