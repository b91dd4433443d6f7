package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// site is the workers and the master of the test, each of which something happens to.
type site struct {
	busy, failing, away, small *daemon
	master                     *daemon
	db                         *harness.Database
	link                       harness.Link
	gates                      string // a folder: the job of a target ends when a file has its name
	smallDir                   string // the journal of small, on a disk of its own
}

// daemon is one with an address for HTTP.
type daemon struct {
	*harness.Daemon
	http string
}

func newSite(t *testing.T) *site {
	s := &site{db: harness.NewDatabase(t), gates: t.TempDir(), smallDir: filepath.Join(t.TempDir(), "journal")}
	s.link = harness.NewLink(t, s.db.Addr)
	harness.SmallDisk(t, s.smallDir, "64m")
	write(t, filepath.Join(s.smallDir, "filler"), strings.Repeat("x", smallFilled))
	gated := func(target string) string {
		return harness.Script(t, fmt.Sprintf("while [ -d %s ] && [ ! -e %[1]s/%s ]; do sleep 0.2; done", s.gates, target)) + " {id}"
	}
	s.master = s.start(t, "jobd-master", harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)})
	worker := func(name, launcher string, targets map[string]int, more harness.Settings) *daemon {
		return s.start(t, "jobd", s.db.Worker(t, name, launcher, targets).With(more))
	}
	s.busy = worker("busy", gated("held"), map[string]int{"a": 1, "held": 1, "broken": 1, "renewed": 1},
		harness.MasterOf(s.master.Daemon).With(harness.Settings{
			"[target a] launcher":      gated("a"),
			"[target broken] launcher": harness.Script(t, "exit 3"), "[target broken] launcher_mode": "fork",
			"[target renewed] launcher":      harness.Script(t, fmt.Sprintf("[ ! -e %s/broken ] || exit 3; echo ready >&4; read -r line <&3", s.gates)),
			"[target renewed] launcher_mode": "pool",
		}))
	s.failing = worker("failing", "/bin/false {id}", map[string]int{"f": 2}, nil)
	s.away = worker("away", gated("w"), map[string]int{"w": 1}, s.link.ToDatabase())
	s.small = worker("small", "/bin/true {id}", map[string]int{"s": 1}, harness.Settings{"journal_dir": s.smallDir})
	return s
}

// start starts a daemon that tells of itself.
func (s *site) start(t *testing.T, program string, settings harness.Settings) *daemon {
	t.Helper()
	at := net.JoinHostPort("127.0.0.1", harness.FreePort(t))
	settings = settings.With(harness.Settings{"http_listen": at})
	return &daemon{harness.Launch(t, program, settings.Write(t), settings.Addr()).Ready(t), at}
}

// add makes rows that wait since an hour ago, and has the worker look.
func (s *site) add(t *testing.T, d *daemon, target string, n int) {
	t.Helper()
	row := fmt.Sprintf("('%s', UNIX_TIMESTAMP() - 3600, 'waiting')", target)
	s.db.Exec(t, "INSERT INTO jobs (target, time_created, status) VALUES "+strings.TrimSuffix(strings.Repeat(row+", ", n), ", "))
	harness.Dial(t, d.Addr).Ask(t, "poll", nil)
}

// runs waits until a job of a target runs, and gives its id.
func (s *site) runs(t *testing.T, target string) (id int64) {
	t.Helper()
	s.db.AwaitCount(t, 1, "status = 'running' AND target = ?", target)
	must.Do(t, s.db.Admin.QueryRow("SELECT id FROM jobs WHERE status = 'running' AND target = ?", target).Scan(&id))
	return id
}

// open lets the jobs of a target end.
func (s *site) open(t *testing.T, target string) { harness.Touch(t, filepath.Join(s.gates, target)) }

// lock holds a row until the test ends.
func (s *site) lock(t *testing.T, id int64) {
	t.Helper()
	tx := must.Get(s.db.Admin.Begin())(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	var found int64
	must.Do(t, tx.QueryRow("SELECT id FROM jobs WHERE id = ? FOR UPDATE", id).Scan(&found))
}

// killRunner kills the runner of a worker, where it has one.
func (d *daemon) killRunner(t *testing.T) {
	t.Helper()
	var status struct{ Runner struct{ PID int } }
	must.Do(t, json.Unmarshal(harness.Dial(t, d.Addr).Ask(t, "status", nil).Data, &status))
	if pid := status.Runner.PID; pid > 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// smallFilled is what is on the disk for one of the journals at first.
const smallFilled = 48 << 20

// breakLauncher gives a target whose process is ready a version that does not get ready.
func (s *site) breakLauncher(t *testing.T) {
	t.Helper()
	asked := harness.Dial(t, s.busy.Addr)
	harness.Until(t, func() string {
		var status struct {
			Executors []struct {
				Target string
				Ready  int
			}
		}
		asked.Ask(t, "status", nil).Decode(t, &status)
		for _, e := range status.Executors {
			if e.Target == "renewed" && e.Ready == 1 {
				return ""
			}
		}
		return fmt.Sprintf("the process is not ready: %+v", status.Executors)
	})
	harness.Touch(t, filepath.Join(s.gates, "broken"))
	answer := asked.Ask(t, "recycle", map[string]any{"targets": []string{"renewed"}})
	must.Equal(t, answer.Error, "")
}

// fill writes some more to the small disk, until it is full.
func (s *site) fill(t *testing.T) {
	t.Helper()
	file := must.Get(os.OpenFile(filepath.Join(s.smallDir, "filler"), os.O_APPEND|os.O_WRONLY, 0))(t)
	defer file.Close()
	if _, err := file.Write(make([]byte, 100<<10)); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }
