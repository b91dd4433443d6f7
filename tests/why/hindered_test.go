package why

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// What keeps a row that waits from being claimed, each told by the worker that it is about.
func TestWhatKeepsARowFromBeingClaimed(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	w := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"mail": 2, "pics": 1}).StartWorker(t)

	jobctl(t, w, "pause", "mail")
	db.Insert(t, 1, "mail", "waiting")
	jobctl(t, w, "poll", "mail")
	await(t, w, 1, "paused", `job 1 waits: its target mail is paused since `+clock+` by 127\.0\.0\.1 \(on node-1\)`)
	db.Insert(t, 2, "mial", "waiting")
	await(t, w, 2, "unserved", `job 2 waits, and node-1 does not serve its target mial \(did you mean mail\?\)`)
	db.Insert(t, 3, "x", "waiting")
	await(t, w, 3, "unserved", `job 3 waits, and node-1 does not serve its target x \(served are mail, pics\)`)
	db.Insert(t, 4, "mail", "manual")
	await(t, w, 4, "manual", `job 4 is manual: it runs when somebody asks for it \(jobctl run-manual 4\)`)

	db.Exec(t, "CREATE TRIGGER only BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF NEW.id = 5 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF; END")
	db.Insert(t, 5, "pics", "waiting")
	jobctl(t, w, "poll", "pics")
	await(t, w, 5, "refused", `job 5 is quarantined on node-1 since `+clock+`: the table refuses that it is claimed: .*not this one.*`)
	db.Exec(t, "DROP TRIGGER only")

	tx := must.Get(db.Admin.Begin())(t)
	defer tx.Rollback()
	db.Insert(t, 6, "pics", "waiting")
	must.Get(tx.Exec("SELECT * FROM jobs WHERE id = 6 FOR UPDATE"))(t)
	jobctl(t, w, "poll", "pics")
	await(t, w, 6, "locked", `job 6 waits: somebody else has locked its row( since `+clock+`)?`)
	must.Do(t, tx.Rollback())
	db.AwaitDone(t, 6)
	await(t, w, 6, "done", `job 6 is done: ok at `+clock+` on node-1, after .*`)
}

// A launcher that breaks, and the row that is given back meanwhile.
func TestALauncherThatBreaks(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.Script(t, "exit 0")
	w := db.Worker(t, "node-1", launcher+" {id}", map[string]int{"a": 1}).StartWorker(t)
	must.Do(t, os.Rename(launcher, launcher+".away"))
	db.Insert(t, 1, "a", "waiting")
	jobctl(t, w, "poll")
	await(t, w, 1, "launcher", `job 1 waits: node-1 claims nothing for target a since `+clock+`: .*no such file or directory.*; node-1 gave it back at `+clock+`, because .*`)
	must.Do(t, os.Rename(launcher+".away", launcher))
	jobctl(t, w, "poll")
	await(t, w, 1, "done", "job 1 is done: ok .*")
}

// While the database is away nobody can read the row, but a worker knows what it runs.
func TestTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	proxy := must.Get(linkproxy.Start(db.Addr))(t)
	defer proxy.Close()
	launcher, open := gate(t, "exit 0")
	settings := db.Worker(t, "node-1", launcher, map[string]int{"a": 1})
	settings["mysql_host"], settings["mysql_port"] = "127.0.0.1", strconv.Itoa(proxy.Port())
	w := settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	db.Insert(t, 2, "a", "waiting")
	jobctl(t, w, "poll")
	await(t, w, 1, "running", "job 1 runs on node-1 .*")
	proxy.Refuse(true)
	proxy.Cut()
	await(t, w, 1, "running", `job 1 runs on node-1 since `+clock+` \(pid \d+\)`)
	await(t, w, 9, "unreadable", `job 9 may be anywhere: node-1 can't read the table( since `+clock+`)?: .*`)
	open()
	await(t, w, 1, "unreadable", `job 1 may be anywhere: .*; the journal of node-1 has it as done at `+clock+` \(ok\)`)
	if got := jobctl(t, w, "show", "1"); got.code != 6 || !strings.Contains(got.stdout, "row: not known") || !strings.Contains(got.stdout, "ended: ok") {
		t.Errorf("show: %+v", got)
	}
}

// What has ended, in all ways.
func TestHowJobsEnd(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.Script(t, `case $1 in 1) exit 0;; 2) kill -KILL $$;; *) echo "$1" >&2; exit 7;; esac`)
	w := db.Worker(t, "node-1", launcher+" {id}", map[string]int{"a": 2}).StartWorker(t)
	db.InsertMany(t, 3, "a", "waiting")
	db.Insert(t, 4, "a", "ignored")
	jobctl(t, w, "poll")
	for id := int64(1); id <= 3; id++ {
		db.AwaitDone(t, id)
	}
	await(t, w, 1, "done", `job 1 is done: ok at `+clock+` on node-1, after .*`)
	await(t, w, 2, "killed", `job 2 was killed by SIGKILL at `+clock+` on node-1, after .*`)
	await(t, w, 3, "failed", `job 3 failed with exit code 7 at `+clock+` on node-1, after .*: 3`)
	await(t, w, 4, "ignored", `job 4 was ignored, and does not run; no journal says why`)
	jobctl(t, w, "pause")
	db.Insert(t, 5, "a", "waiting")
	jobctl(t, w, "cancel", "5")
	await(t, w, 5, "cancelled", `job 5 was ignored at `+clock+` on node-1, and does not run: cancelled by .*`)
	db.Exec(t, "ALTER TABLE jobs MODIFY status enum('waiting','manual','accepted','running','done','ignored','held') NOT NULL")
	db.Insert(t, 6, "a", "held")
	await(t, w, 6, "odd-status", `job 6 has the status "held", which jobd does not know: it is left alone`)
	db.Exec(t, "DELETE FROM jobs WHERE id = 3")
	await(t, w, 3, "no-such-job", `job 3 has no row any more; the journal of node-1 has it as done at `+clock+` \(exit code 7\)`)
}

// A worker and its runner are killed while a job runs: its outcome is unknown, and why says so.
func TestAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher, _ := gate(t, "exit 0")
	settings := db.Worker(t, "node-1", launcher, map[string]int{"a": 1})
	w := settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	jobctl(t, w, "poll")
	await(t, w, 1, "running", "job 1 runs on node-1 .*")
	w.Crash(t)
	w = settings.StartWorker(t)
	db.AwaitDone(t, 1)
	await(t, w, 1, "unknown-outcome", `job 1 ended at `+clock+` on node-1, and its outcome is unknown: .+`)
}
