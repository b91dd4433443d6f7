package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
