package pages

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

var update = flag.Bool("update", false, "write what the commands print into the page")

func TestMain(m *testing.M) { harness.Main(m) }

// Blocks of the page that begin so are run, in the order of the page.
const (
	fence = "```console"
	end   = "```"
)

// TestJobctlPage runs every command of docs/jobctl.md, each on what the ones before it left.
func TestJobctlPage(t *testing.T) {
	t.Parallel()
	page := filepath.Join(harness.Top(), "docs", "jobctl.md")
	text := must.Get(os.ReadFile(page))(t)
	s := newScene(t)
	var updated []string
	lines := strings.Split(string(text), "\n")
	commands := 0
	for i := 0; i < len(lines); i++ {
		updated = append(updated, lines[i])
		if lines[i] != fence {
			continue
		}
		for i++; i < len(lines) && lines[i] != end; i++ {
			command, isCommand := strings.CutPrefix(lines[i], "$ ")
			if !isCommand {
				t.Fatalf("%s:%d: a block begins with a command: $ jobctl …", page, i+1)
			}
			updated = append(updated, lines[i])
			var want []string
			at := i + 1
			for i+1 < len(lines) && lines[i+1] != end && !strings.HasPrefix(lines[i+1], "$ ") {
				i++
				want = append(want, lines[i])
			}
			printed := s.run(t, command)
			commands++
			if diff := cmp.Diff(harness.Masked(strings.Join(want, "\n")), harness.Masked(printed)); diff == "" {
				updated = append(updated, want...)
			} else {
				updated = append(updated, strings.Split(printed, "\n")...)
				if !*update {
					t.Errorf("%s:%d: %s prints something else now (-page +now):\n%s\nit printed:\n%s", page, at, command, diff, printed)
				}
			}
			for _, line := range strings.Split(printed, "\n") {
				if n := len([]rune(line)); n > columns && strings.Contains(line, " | ") {
					t.Errorf("%s:%d: %s prints %d columns: %s", page, at, command, n, line)
				}
			}
		}
		updated = append(updated, end)
	}
	if commands == 0 {
		t.Error("the page shows no command")
	}
	if *update {
		must.Do(t, os.WriteFile(page, []byte(strings.Join(updated, "\n")), 0o644))
	}
}

// columns is how wide the terminal is.
const columns = 80

// run runs a command line of the page in a terminal, and gives what a person sees.
func (s *scene) run(t *testing.T, command string) string {
	t.Helper()
	s.before(t, command)
	port := s.worker
	if strings.Contains(command, "--master") {
		port = s.master
	}
	cmd := exec.Command("script", "-qec", "stty cols 80 rows 40; "+command, os.DevNull)
	cmd.Env = []string{
		"HOME=" + s.home, "PATH=" + s.bin + ":" + os.Getenv("PATH"), "TERM=xterm", "NO_COLOR=1", "LC_ALL=C.UTF-8", "TZ=UTC",
		"JOBCTL_HOST=127.0.0.1", "JOBCTL_PORT=" + port, "SHELL=/bin/sh",
	}
	cmd.Dir = s.home
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(harness.Seen(out.String()), s.home, "~")
}

func TestMasked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a  | 10:02:17  | 3m12s |\n---+---":         "a | TIME | LONG |\n-+-",
		"since 2026-11-22 10:02 by 127.0.0.1:41234": "since TIME by ADDRESS",
		"job 117 failed with 3":                     "job 117 failed with 3",
		"pid 4711, token=@k3vfq7zta4 12.3 MiB":      "pid PID, token=@k3vfq7zta4 SIZE",
		"token=@k3vfq7zta":                          "token=@TOKEN",
	} {
		check.Equal(t, harness.Masked(text), want, "%q is", text)
	}
}

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
		return s.Worker(t, name, launcher+" {id}", targets).With(harness.MasterOf(master), harness.Settings{"prefetch": "2"}).StartWorker(t)
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
