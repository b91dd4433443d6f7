package pages

import (
	"path/filepath"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// scene is what the page is about: a master, two workers and some jobs.
//
//	node-1   mail 2 slots, thumbs 2 slots
//	node-2   reports 1 slot
//
// Of mail jobs 101 to 104 have ended well, 117 and 118 have failed, 120 and 121 run, 122 and 123 are
// claimed and wait for a slot, 124 and 125 wait.
// reports is paused with 130 and 131 waiting, 140 of thumbs is manual, and nobody serves video, for
// which 150 waits.
type scene struct {
	*harness.Database
	home, bin      string
	master, worker string // ports
	gate           string // mail jobs from 120 on run until it is there
}

func newScene(t *testing.T) *scene {
	s := &scene{Database: harness.NewDatabase(t), home: t.TempDir()}
	s.bin = filepath.Dir(harness.Program(t, "jobctl"))
	s.gate = filepath.Join(t.TempDir(), "gate")
	launcher := harness.Script(t, `
case $1 in
117|118) echo "connecting to mail.example.com"; echo "smtp: connection refused" >&2; exit 3;;
140) echo "thumbnail made"; exit 0;;
120) echo "message 1 of 3 sent"; echo "message 2 of 3 sent"; echo "greylisted, trying again" >&2;;
esac
if [ "$1" -ge 120 ]; then while [ ! -e `+s.gate+` ]; do sleep 0.2; done; fi
echo sent`)
	master := harness.StartMaster(t)
	start := func(name string, targets map[string]int) *harness.Daemon {
		return s.Worker(t, name, launcher+" {id}", targets).With(harness.MasterOf(master)).StartWorker(t)
	}
	// One worker after the other, and job by job: so the page reads the same each time.
	one := start("node-1", map[string]int{"mail": 2, "thumbs": 2})
	harness.AwaitWorkers(t, master, "", 1)
	s.master, s.worker = portOf(master), portOf(one)
	for _, id := range []int64{101, 102, 103, 104, 117, 118} {
		s.insert(t, id, "mail", "waiting")
		s.run(t, "jobctl poll mail")
		s.AwaitDone(t, id)
	}
	start("node-2", map[string]int{"reports": 1})
	harness.AwaitWorkers(t, master, "", 2)
	s.run(t, "jobctl --master pause reports")
	for _, id := range []int64{120, 121} {
		s.insert(t, id, "mail", "waiting")
		s.run(t, "jobctl poll mail")
		s.AwaitStatus(t, id, "running")
	}
	for id := int64(122); id <= 125; id++ {
		s.insert(t, id, "mail", "waiting")
	}
	s.run(t, "jobctl poll mail")
	s.AwaitCount(t, 2, "status = 'accepted'") // prefetched
	s.insert(t, 130, "reports", "waiting")
	s.insert(t, 131, "reports", "waiting")
	s.insert(t, 140, "thumbs", "manual")
	s.insert(t, 150, "video", "waiting")
	return s
}

// before does what must have happened before a command of the page.
func (s *scene) before(t *testing.T, command string) {
	if strings.Contains(command, " wait ") {
		harness.Touch(t, s.gate)
	}
}

func (s *scene) insert(t *testing.T, id int64, target, status string) {
	t.Helper()
	s.Exec(t, "INSERT INTO jobs (id, target, status, time_created) VALUES (?, ?, ?, UNIX_TIMESTAMP())", id, target, status)
}

func portOf(d *harness.Daemon) string { return d.Addr[strings.LastIndexByte(d.Addr, ':')+1:] }
