package services

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// held is a script that notes in a file that it runs, waits until it may go on, and notes that it has
// ended.
const held = `ob_start();
file_put_contents(__DIR__ . '/came', $_SERVER['JOBD_ID'] . ' ', FILE_APPEND);
while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
file_put_contents(__DIR__ . '/left', $_SERVER['JOBD_ID'] . ' ', FILE_APPEND);
header('Jobd-Exit-Code: 0');`

const connectionLost = "the request did not come to its end: the connection was closed: nobody can tell how it ended"

// notes waits until a file says so.
func (f *fpm) notes(name, want string) {
	f.t.Helper()
	harness.Until(f.t, func() string {
		got, err := os.ReadFile(filepath.Join(f.folder, name))
		if string(got) != want {
			return name + " has " + string(got) + ", not " + want + ": " + errorText(err)
		}
		return ""
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// release lets the scripts that are held go on.
func (f *fpm) release() {
	f.t.Helper()
	must.Do(f.t, os.WriteFile(filepath.Join(f.folder, "go"), nil, 0o600))
}

func (f *fpm) signal(signal syscall.Signal) {
	f.t.Helper()
	must.Do(f.t, f.master.Process.Signal(signal))
}

// ended is the end of a job, in a line.
func ended(t *testing.T, p jobexec.Process) string {
	t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(harness.Patience):
		t.Fatal("a job does not end")
	}
	return shown(p.Outcome())
}

// When php-fpm ends, its jobs are unknown, and the next ones are not started until it is back.
func TestPHPEndsAndComesBack(t *testing.T) {
	t.Parallel()
	f := newFPM(t, "", 2)
	a := newAsker(t)
	service := a.serve(f.script("job", held))
	process := a.start(service, harness.Patience)
	f.notes("came", "1 ")
	f.signal(unix.SIGTERM)
	if got := ended(t, process); !strings.HasSuffix(got, connectionLost) {
		t.Errorf("it ended as %s", got)
	}
	f.stop()
	if got := shown(a.run(service)); !strings.Contains(got, "fastcgi:"+f.address+": dial unix") {
		t.Errorf("the next one ended as %s", got)
	}
	a.await(false)
	f.start()
	a.await(true)
	f.release()
	if got := shown(a.run(service)); got != `ok 0 out "" err ""` {
		t.Errorf("it ended as %s", got)
	}
	f.notes("left", "3 ")
}

// systemctl reload php-fpm kills what runs, unless process_control_timeout gives it time.
func TestPHPIsReloaded(t *testing.T) {
	t.Parallel()
	for name, global := range map[string]string{"at once": "0", "in time": "60s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFPM(t, "", 1, "[global]", "process_control_timeout = "+global, "[www]")
			a := newAsker(t)
			process := a.start(a.serve(f.script("job", held)), harness.Patience)
			f.notes("came", "1 ")
			f.signal(unix.SIGUSR2)
			if global == "0" {
				if got := ended(t, process); !strings.HasSuffix(got, connectionLost) {
					t.Errorf("it ended as %s", got)
				}
				return
			}
			f.says("Reloading in progress")
			f.release()
			if got := ended(t, process); got != `ok 0 out "" err ""` {
				t.Errorf("it ended as %s", got)
			}
		})
	}
}
