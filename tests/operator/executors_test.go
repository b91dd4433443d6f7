package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// forks is a launcher for forks, in a version. A job waits for a file of the name hold-ID where there
// is a folder of the name gate-ID; then it writes its version and its pid.
const forks = `use strict; use POSIX ();
open(my $requests, '<&=', 3) or die; open(my $answers, '>&=', 4) or die;
select($answers); $| = 1; select(STDOUT);
print $answers "ready\n";
while (defined(my $line = <$requests>)) {
    last if $line eq "quit\n";
    my (undef, $job) = split ' ', $line;
    my $pid = fork;
    if (!defined $pid) { print $answers "refused $job\n"; next }
    if ($pid) { waitpid $pid, 0; print $answers "ended $job $?\n"; next }
    POSIX::setpgid(0, 0);
    print $answers "started $job $$\n";
    if (-d "GATES/gate-$job") { select(undef, undef, undef, 0.02) until -e "GATES/gate-$job/open" }
    print "VERSION $$\n"; close STDOUT;
    POSIX::_exit(0);
}
`

// preload writes such a launcher.
func preload(t *testing.T, path, gates, version string) {
	t.Helper()
	text := strings.NewReplacer("GATES", gates, "VERSION", version).Replace(forks)
	must.Do(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must.Do(t, os.Rename(path+".new", path))
}

// executorStanding is how an executor stands, as jobctl status tells programs.
type executorStanding struct {
	Mode, Unready                   string
	Processes, Ready, Busy, Booting int
	Boots, Jobs                     int64
	Recycled                        map[string]int64
}

// executor is how the only executor of a worker stands.
func executor(t *testing.T, worker *harness.Daemon) executorStanding {
	t.Helper()
	var status struct{ Executors []executorStanding }
	got := jobctl(t, worker, "status", "--output", "json")
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil || len(status.Executors) != 1 {
		t.Fatalf("%v: %+v", err, got)
	}
	return status.Executors[0]
}

func awaitExecutor(t *testing.T, worker *harness.Daemon, is func(executorStanding) bool) {
	t.Helper()
	harness.Until(t, func() string {
		if e := executor(t, worker); !is(e) {
			return fmt.Sprintf("it stands so: %+v", e)
		}
		return ""
	})
}

// A new version of an application is deployed while its jobs run: the file is replaced, and jobctl
// recycle has the processes follow, one after the other, while one job goes on to its end. No job is
// lost or run twice, and once all are replaced, all run in the new version. status, ps and metrics
// tell of it.
func TestDeploymentUnderLoad(t *testing.T) {
	t.Parallel()
	const slots, long, load = 3, 1, 60
	db, gates := harness.NewDatabase(t), t.TempDir()
	launcher := filepath.Join(t.TempDir(), "preload.pl")
	preload(t, launcher, gates, "one")
	master := harness.StartMaster(t)
	at := "127.0.0.1:" + harness.FreePort(t)
	worker := db.Worker(t, "node-1", "perl "+launcher, map[string]int{"mail": slots}).With(harness.MasterOf(master), harness.Settings{
		"launcher_mode": "fork", "max_output_buffer": "64KiB", "http_listen": at,
	}).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	gate := filepath.Join(gates, fmt.Sprint("gate-", long))
	must.Do(t, os.Mkdir(gate, 0o700))
	expect := func(want string, args ...string) {
		t.Helper()
		if got := jobctl(t, worker, args...); got.code != 0 || got.stdout != want {
			t.Fatalf("jobctl %q: %+v", args, got)
		}
	}
	add(t, db, long)
	expect("ok\n", "poll")
	pid := runs(t, worker, long)
	awaitExecutor(t, worker, func(e executorStanding) bool {
		return e.Mode == "fork" && e.Busy == 1 && e.Ready == slots-1 && e.Unready == ""
	})

	add(t, db, load)
	expect("ok\n", "poll")
	preload(t, launcher, gates, "two")
	expect("ok\n", "recycle", "mail")
	add(t, db, load)
	if got := jobctl(t, master, "--master", "poke", "mail"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	db.AwaitCount(t, 2*load, "status = 'done'")
	harness.Touch(t, filepath.Join(gate, "open"))
	db.AwaitCount(t, long+2*load, "status = 'done' AND result = 'ok' AND return_code = 0")
	awaitExecutor(t, worker, func(e executorStanding) bool {
		return e.Recycled["recycle"] == slots && e.Ready == slots && e.Processes == slots
	})
	if row := db.Row(t, long); harness.Text(row.Stdout) != fmt.Sprintf("one %d\n", pid) {
		t.Errorf("the long job, which ps said has pid %d: %s", pid, row)
	}
	if n := db.Count(t, `stdout NOT REGEXP '^(one|two) [0-9]+\n$'`); n > 0 {
		t.Errorf("%d jobs have another output than one line of one version", n)
	}

	add(t, db, load)
	expect("ok\n", "poll")
	db.AwaitCount(t, long+3*load, "status = 'done'")
	if n := db.Count(t, `id > ? AND stdout REGEXP '^two '`, long+2*load); n != load {
		t.Errorf("of %d jobs that came after all processes were replaced, %d ran in the new version", load, n)
	}
	if got := jobctl(t, master, "--master", "recycle", "mail", "nobody"); got.code != 1 || !strings.Contains(got.stderr, "target 'nobody': no worker serves it") {
		t.Errorf("through the master: %+v", got)
	}
	awaitExecutor(t, worker, func(e executorStanding) bool {
		return e.Recycled["recycle"] == 2*slots && e.Ready == slots && e.Processes == slots
	})
	seen(t, worker, at)
}

// add makes rows of mail behind those that there are.
func add(t *testing.T, db *harness.Database, n int) {
	t.Helper()
	db.Exec(t, "INSERT INTO jobs (target, time_created, status) VALUES "+strings.TrimSuffix(strings.Repeat("('mail', UNIX_TIMESTAMP(), 'waiting'), ", n), ", "))
}

// seen looks at the pages for people, and at the metrics.
func seen(t *testing.T, worker *harness.Daemon, at string) {
	t.Helper()
	e := executor(t, worker)
	page := strings.Join(strings.Fields(jobctl(t, worker, "status").stdout), " ")
	line := fmt.Sprintf("TARGET EXECUTOR PROCESSES READY BUSY BOOTING JOBS REPLACED mail fork 3 3 0 0 %d 6 (recycle 6)", e.Jobs)
	if !strings.Contains(page, line) {
		t.Errorf("jobctl status has no table %q: %q", line, page)
	}
	answer := must.Get(http.Get("http://" + at + "/metrics"))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	for _, want := range []string{
		`jobd_executor_processes{mode="fork",state="ready",target="mail"} 3`, fmt.Sprintf(`jobd_executor_boots_total{mode="fork",target="mail"} %d`, e.Boots),
		`jobd_executor_recycles_total{mode="fork",reason="recycle",target="mail"} 6`, fmt.Sprintf(`jobd_executor_turns_total{mode="fork",target="mail"} %d`, e.Jobs),
		`jobd_executor_unready{mode="fork",target="mail"} 0`,
	} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

// runs gives the process of a job, as jobctl ps tells it, with its executor.
func runs(t *testing.T, worker *harness.Daemon, job int) (pid int) {
	t.Helper()
	harness.Until(t, func() string {
		got := jobctl(t, worker, "ps", "--output", "json")
		var running struct {
			Jobs []struct {
				Job, PID int
				Executor string
			}
		}
		if err := json.Unmarshal([]byte(got.stdout), &running); err != nil {
			t.Fatalf("%v: %+v", err, got)
		}
		for _, j := range running.Jobs {
			if j.Job == job && j.PID > 0 && j.Executor == "fork" {
				pid = j.PID
				return ""
			}
		}
		return "ps does not tell of the job: " + got.stdout
	})
	return pid
}

// A launcher that never gets ready stops the claims of its target, and is told with what it said; no
// row is touched. When it is mended, all go on by itself.
func TestALauncherThatNeverGetsReady(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.Script(t, "echo Class Application not found >&2; exit 3")
	worker := db.Worker(t, "node-1", "/bin/sh -c true {id}", map[string]int{"mail": 2, "other": 1}).With(harness.Settings{
		"[target mail] launcher": launcher, "[target mail] launcher_mode": "pool",
	}).StartWorker(t)
	db.Insert(t, 1, "mail", "waiting")
	db.Insert(t, 2, "other", "waiting")
	jobctl(t, worker, "poll")
	db.AwaitDone(t, 2)
	harness.Until(t, func() string {
		page := jobctl(t, worker, "status").stdout
		if !strings.Contains(page, "\nno job of target mail can be started since ") || !strings.Contains(page, "exit code 3") {
			return "status does not say why: " + page
		}
		return ""
	})
	if why := jobctl(t, worker, "why", "1").stdout; !strings.Contains(why, "no process gets ready that could run its jobs") {
		t.Errorf("why says %q", why)
	}
	db.AwaitStatus(t, 1, "waiting")
	if got := jobctl(t, worker, "health"); got.code != 1 || !strings.Contains(got.stdout, "no job of target mail can be started for ") {
		t.Errorf("health: %+v", got)
	}
	const mended = `echo ready >&4
while read word job rest <&3; do
	[ "$word" = run ] || exit 0
	echo started $job >&4; echo done by $$; echo exit $job 0 >&4
done`
	must.Do(t, os.Rename(harness.Script(t, mended), launcher))
	if row := db.AwaitDone(t, 1); !strings.HasPrefix(harness.Text(row.Stdout), "done by ") {
		t.Errorf("the row: %s", row)
	}
	if got := jobctl(t, worker, "recycle", "other"); got.code != 1 || !strings.Contains(got.stderr, "no processes are kept for target 'other': its launcher_mode is not fork or pool") {
		t.Errorf("recycle of a target without: %+v", got)
	}
}
