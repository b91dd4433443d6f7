package operator

import (
	"os"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

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
