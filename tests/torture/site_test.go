package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// site is a database, a launcher with its oracle, and the configuration of a worker.
type site struct {
	*harness.Database
	oracle   oracle
	settings harness.Settings
	config   string // the configuration file, once it is written
	jobs     int    // how many there are in the table: their ids are 1 to jobs
}

// newSite makes a site on the shared server. The job's script is what the launcher does
// between its marks in the oracle, see newOracle.
func newSite(t *testing.T, script string, targets map[string]int, settings ...harness.Settings) *site {
	t.Helper()
	return newSiteOn(t, suite.server, script, targets, settings...)
}

func newSiteOn(t *testing.T, server *dbserver.Server, script string, targets map[string]int, settings ...harness.Settings) *site {
	t.Helper()
	s := &site{Database: harness.NewDatabaseOn(t, server), oracle: newOracle(t, script)}
	s.settings = s.worker(t, "worker").With(harness.Targets(targets)).With(settings...)
	return s
}

// worker is the settings of one more worker of the site.
func (s *site) worker(t *testing.T, name string) harness.Settings {
	settings := s.Worker(t, name, s.oracle.launcher+" {id}", nil)
	t.Cleanup(func() {
		if pid := harness.RunnerOf(settings["journal_dir"]); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be ending by itself
		}
		s.oracle.killRunning(t)
	})
	return settings
}

// insert adds n waiting jobs of a target, under the next ids.
func (s *site) insert(t *testing.T, n int, target string) {
	t.Helper()
	for n > 0 {
		batch := min(n, 1000)
		rows := make([]string, batch)
		for i := range rows {
			s.jobs++
			rows[i] = fmt.Sprintf("(%d, '%s', UNIX_TIMESTAMP(), 'waiting')", s.jobs, target)
		}
		s.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES "+strings.Join(rows, ", "))
		n -= batch
	}
}

// launch starts the site's worker and waits for nothing; program is jobd, or armed.
func (s *site) launch(t *testing.T, program string) *harness.Daemon {
	t.Helper()
	if s.config == "" {
		s.config = s.settings.Write(t)
	}
	return harness.Launch(t, program, s.config, s.settings.Addr())
}

// start starts the site's worker and tells how long it took until it answered.
func (s *site) start(t *testing.T) (*harness.Daemon, time.Duration) {
	t.Helper()
	harness.Program(t, "jobd") // building it is not part of the time
	begun := time.Now()
	worker := s.launch(t, "jobd").Ready(t)
	return worker, time.Since(begun)
}

// awaitDone waits until all jobs are done; as long as there are more and more of them it
// has patience.
func (s *site) awaitDone(t *testing.T) {
	t.Helper()
	for before := -1; ; {
		done := s.Count(t, "status = 'done'")
		if done == s.jobs {
			return
		}
		if done == before {
			t.Fatalf("no progress for %s: %d of %d jobs are done; the others:\n%s", patience, done, s.jobs, s.undone(t))
		}
		before = done
		await(func() bool { return s.Count(t, "status = 'done'") > before })
	}
}

// undone describes some of the rows that are not at their end.
func (s *site) undone(t *testing.T) string {
	var text strings.Builder
	rows, err := s.Admin.QueryContext(t.Context(), "SELECT id, status, COALESCE(sig, '') FROM jobs WHERE status <> 'done' ORDER BY id LIMIT 20")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	for rows.Next() {
		var id, status, sig string
		if err := rows.Scan(&id, &status, &sig); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&text, "  job %s: %s, owner %q\n", id, status, sig)
	}
	return text.String()
}

// patience is how long nothing may happen.
const patience = 2 * time.Minute

// await waits until a condition holds; it gives up when patience is over.
func await(condition func() bool) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-deadline.C:
			return condition()
		}
	}
	return true
}

// suite is what the tests of a run share.
var suite struct {
	server *dbserver.Server
	matrix matrix
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	harness.AtOnce(4)
	var err error
	suite.server, err = dbserver.Start(context.Background(), dbserver.Options{Args: []string{"--max-connections=500"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := suite.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	code = m.Run()
	suite.matrix.print(os.Stdout)
	return code
}

// long tells the long form from the short one.
func long() bool { return os.Getenv("TORTURE") == "long" }

// size is a number that depends on the form.
func size[N any](short, inLong N) N {
	if long() {
		return inLong
	}
	return short
}

// armed is the program that kills itself at failpoints, as harness.Launch takes it.
const armed = "failpoints/jobd"

// oracle is the file that tells what was started, and the launcher that writes it.
type oracle struct {
	file     string
	launcher string
	gate     string // a pipe with a name: jobs whose script reads it wait for open
}

// newOracle makes a launcher that marks its start and its end in the oracle, prints "out ID" and "err ID"
// and exits with the id's remainder by four. In between it does what the script says, in which $1 is
// the id and $gate the gate.
func newOracle(t *testing.T, script string) oracle {
	t.Helper()
	dir := t.TempDir()
	o := oracle{file: filepath.Join(dir, "oracle"), gate: filepath.Join(dir, "gate")}
	must.Do(t, syscall.Mkfifo(o.gate, 0o600))
	o.launcher = harness.Script(t, fmt.Sprintf(`gate=%s
echo "start $1 ${JOBD_ATTEMPT:-1} $$" >> %[2]s
%[3]s
echo "out $1"
echo "err $1" >&2
echo "end $1 ${JOBD_ATTEMPT:-1} $$" >> %[2]s
exit $(($1 %% 4))`, o.gate, o.file, script))
	return o
}

// attempt tells one attempt of one job from all others.
type attempt struct{ job, number int }

// history is what the oracle says.
type history struct {
	starts map[attempt][]int // the process ids
	ends   map[attempt]int   // how many
}

func (o oracle) read(t *testing.T) history {
	t.Helper()
	content, err := os.ReadFile(o.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	h := history{starts: map[attempt][]int{}, ends: map[attempt]int{}}
	for text := range strings.Lines(string(content)) {
		var word string
		var a attempt
		var pid int
		if _, err := fmt.Sscanf(text, "%s %d %d %d\n", &word, &a.job, &a.number, &pid); err != nil {
			t.Fatalf("the oracle says %q: %v", text, err)
		}
		if word == "start" {
			h.starts[a] = append(h.starts[a], pid)
		} else {
			h.ends[a]++
		}
	}
	return h
}

// killRunning kills what the launcher has left.
func (o oracle) killRunning(t *testing.T) {
	t.Helper()
	for _, pids := range o.read(t).starts {
		for _, pid := range pids {
			harness.KillJob(o.launcher, pid)
		}
	}
}

// The worker is killed at each point of a job's way, and its next start, which may die there
// too, makes good what was left.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	points := []struct {
		name string
		most int // how often it is reached for certain while twelve jobs are run
	}{
		{"claim-selected", 2},
		{"accepted-appended", 8},
		{"commit-sent", 2},
		{"commit-answered", 2},
		{"running-appended", 10},
		{"running-mirrored", 3}, // of those that did not start with their claim
		{"start-asking", 10},
		{"start-asked", 10},
		{"started", 10},
		{"started-appended", 10},
		{"exit-seen", 10},
		{"done-appended", 10},
		{"forgotten", 10},
		{"update-sent", 3},
		{"done-mirrored", 10},
		{"checkpoint", 1},
	}
	for _, point := range points {
		t.Run(point.name, func(t *testing.T) {
			t.Parallel()
			killAt(t, point.name, point.most)
		})
	}
}

func killAt(t *testing.T, point string, most int) {
	harness.Armed(t)
	// A log of large output, so that emptying it takes a moment.
	script := shortJob + `; [ $(($1 % 12)) != 0 ] || head -c 400000 /dev/zero | tr '\0' x`
	s := newSite(t, script, map[string]int{"a": 4})
	runs, up := size(3, 100), []time.Duration{}
	for range runs {
		for range 1 + rand.IntN(2) {
			s.insert(t, 12, "a")
			harness.Arm(t, s.settings["journal_dir"], point, 1+rand.IntN(most))
			if worker := s.launch(t, armed); worker.ExitCode(t) != -1 {
				t.Fatalf("it was not killed but ended by itself:\n%s", worker.Output())
			}
		}
		harness.Disarm(t, s.settings["journal_dir"])
		worker, took := s.start(t)
		up = append(up, took)
		s.awaitDone(t)
		worker.Kill(t)
	}
	found := s.audit(t)
	if found.unknown > 0 {
		t.Errorf("%d outcomes are unknown, though the runner lived", found.unknown)
	}
	suite.matrix.add(line{fault: "1 worker killed: " + point, runs: len(up), tally: found, up: up})
}
