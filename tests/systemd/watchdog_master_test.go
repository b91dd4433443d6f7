package systemd

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

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
			if out := master.Output(); !strings.Contains(out, "goroutine ") || !strings.Contains(out, "loop stands still") || !strings.Contains(out, "loop="+loop) {
				t.Errorf("what hung is not to be seen in what it wrote: %s", out)
			}
			next = len(m.messages(0))
			again := m.launch(harness.Program(t, "jobd-master"), settings)
			m.await(next, "STATUS=workers: 1, targets: 1")
			db.Insert(t, 1, "a", "waiting")
			poke(t, again)
			db.AwaitDone(t, 1)
			again.Signal(t, syscall.SIGTERM)
			if code := again.ExitCode(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func poke(t *testing.T, master *harness.Daemon) {
	t.Helper()
	harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"a"}})
}
