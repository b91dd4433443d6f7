package operator

import (
	"os"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// A new version that does not get ready: the old one's processes go on, and status and health say why
// there are no others, until it is mended.
func TestANewVersionThatDoesNotGetReady(t *testing.T) {
	t.Parallel()
	const loop = `echo ready >&4
while read word job rest <&3; do
	[ "$word" = run ] || exit 0
	echo started $job >&4; echo VERSION; echo exit $job 0 >&4
done`
	version := func(name string) string { return harness.Script(t, strings.ReplaceAll(loop, "VERSION", name)) }
	deploy := func(script, launcher string) {
		t.Helper()
		if err := os.Rename(script, launcher); err != nil {
			t.Fatal(err)
		}
	}
	db := harness.NewDatabase(t)
	launcher := version("one")
	worker := db.Worker(t, "node-1", launcher, map[string]int{"mail": 2}).With(harness.Settings{"launcher_mode": "pool"}).StartWorker(t)
	awaitExecutor(t, worker, func(e executorStanding) bool { return e.Ready == 2 })

	deploy(harness.Script(t, "echo Parse error >&2; exit 255"), launcher)
	if got := jobctl(t, worker, "recycle"); got.code != 0 {
		t.Fatalf("recycle: %+v", got)
	}
	harness.Until(t, func() string {
		page := jobctl(t, worker, "status").stdout
		if !strings.Contains(page, "\nno new process for target mail gets ready since ") ||
			!strings.Contains(page, ", those that are there go on: it ended with exit code 255; it wrote: Parse error") {
			return "status does not say why: " + page
		}
		return ""
	})
	if got := jobctl(t, worker, "health"); got.code != 1 || !strings.Contains(got.stdout, "no new process for target mail gets ready for ") {
		t.Errorf("health: %+v", got)
	}
	db.Insert(t, 1, "mail", "waiting")
	jobctl(t, worker, "poll")
	if row := db.AwaitDone(t, 1); harness.Text(row.Stdout) != "one\n" {
		t.Errorf("the old version's job: %s", row)
	}

	deploy(version("two"), launcher)
	awaitExecutor(t, worker, func(e executorStanding) bool { return e.Recycled["recycle"] == 2 && e.Ready == 2 })
	if page := jobctl(t, worker, "status").stdout; strings.Contains(page, "no new process") {
		t.Errorf("status: %s", page)
	}
	db.Insert(t, 2, "mail", "waiting")
	jobctl(t, worker, "poll")
	if row := db.AwaitDone(t, 2); harness.Text(row.Stdout) != "two\n" {
		t.Errorf("the new version's job: %s", row)
	}
}
