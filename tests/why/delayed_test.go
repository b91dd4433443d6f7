package why

import (
	"fmt"
	"testing"

	"jobd/tests/harness"
)

// ahead is how far ahead a moment is, in words.
const ahead = `(UTC )?\(in [0-9dhms]+\)`

// attempted is how a job with exit code 3 is told.
const attempted = `exit code 3`

// later adds a row that is not run before a time, so many seconds from now (0: it is not planned).
func later(t *testing.T, db *harness.Database, id int64, target string, in int, others string) {
	t.Helper()
	runAt := "0"
	if in != 0 {
		runAt = fmt.Sprintf("UNIX_TIMESTAMP() + %d", in)
	}
	if others == "" {
		others = "attempts = 0"
	}
	db.Exec(t, fmt.Sprintf("INSERT INTO jobs SET id = ?, target = ?, status = 'delayed', time_created = UNIX_TIMESTAMP(), run_at = %s, %s", runAt, others), id, target)
}

// What keeps a row from running that is to run later, recurs, or is tried again, each told by a worker.
// Nobody polls: a row that nobody has looked at yet is told as that.
func TestWhatARowThatComesLaterWaitsFor(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t, harness.TimesTable)
	launcher := harness.Script(t, `case $1 in 3|5|6|7) echo "no mail" >&2; exit 3;; 8) exec sleep 600;; esac`) + " {id}"
	w := db.Worker(t, "node-1", launcher, map[string]int{"a": 4, "one": 1, "slow": 1}).With(harness.UsesAll,
		harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "1h"}),
		harness.Terms("slow", harness.Settings{"rate": "1/h"})).StartWorker(t)

	later(t, db, 1, "a", 3600, "")
	await(t, w, 1, "delayed", `job 1 is delayed until `+clock+` `+ahead)
	later(t, db, 2, "x", 3600, "")
	await(t, w, 2, "delayed", `job 2 is delayed until `+clock+` `+ahead+`; .*node-1 does not serve its target x.*`)
	jobctl(t, w, "run-now", "1")
	db.AwaitDone(t, 1)

	later(t, db, 3, "a", -1, "")
	jobctl(t, w, "poll", "a")
	await(t, w, 3, "retrying", `job 3 is delayed until `+clock+` `+ahead+`, attempt 2 of 2 after `+attempted)
	jobctl(t, w, "run-now", "3")
	await(t, w, 3, "failed", `job 3 failed with exit code 3 .*: no mail; it has been tried 2 times, which is all it has`)

	later(t, db, 4, "a", 0, "schedule = 'daily 02:30', time_zone = 'Europe/Berlin'")
	jobctl(t, w, "poll", "a")
	await(t, w, 4, "recurring", `job 4 recurs daily 02:30 \(Europe/Berlin\), next run `+clock+` `+ahead+`; planned at `+clock+` on node-1`)
	jobctl(t, w, "run-now", "4")
	await(t, w, 4, "recurring", `job 4 recurs daily 02:30 \(Europe/Berlin\), next run `+clock+` `+ahead+`; the last one ended at `+clock+`: ok`)

	later(t, db, 5, "a", 3600, "schedule = 'every 1h', max_attempts = 1")
	jobctl(t, w, "run-now", "5")
	await(t, w, 5, "recurring", `job 5 recurs every 1h, next run `+clock+` `+ahead+`; the last one ended at `+clock+`: `+attempted)
	later(t, db, 6, "a", 3600, "schedule = 'every 3h'")
	jobctl(t, w, "run-now", "6")
	await(t, w, 6, "retrying", `job 6 is delayed until `+clock+` `+ahead+`, attempt 2 of 2 after `+attempted+`; it recurs every 3h`)

	later(t, db, 7, "a", 3600, "schedule = 'dayly 02:30'")
	await(t, w, 7, "bad-schedule", `job 7 recurs dayly 02:30, next run `+clock+` `+ahead+`; then it is ignored: schedule "dayly 02:30": .*`)
	db.Exec(t, "UPDATE jobs SET run_at = 0 WHERE id = 7")
	jobctl(t, w, "poll", "a")
	await(t, w, 7, "ignored", `job 7 was ignored at `+clock+` on node-1, and does not run: .*dayly.*`)

	jobctl(t, w, "pause", "one")
	later(t, db, 8, "one", -1, "timeout = 1")
	later(t, db, 9, "one", -1, "")
	await(t, w, 9, "paused", `job 9 is due since `+clock+`, and waits: its target one is paused since .*`)
	jobctl(t, w, "continue", "one")
	await(t, w, 8, "timed-out", `job 8 failed at `+clock+` on node-1, after .*: its time limit of 1s was over`)
	db.AwaitDone(t, 9)

	later(t, db, 10, "slow", -2, "")
	later(t, db, 11, "slow", -1, "")
	jobctl(t, w, "poll", "slow")
	db.AwaitDone(t, 10)
	await(t, w, 11, "rate", `job 11 is due since `+clock+`, and .*rate.*`)
}

// A schedule that is edited while its row waits for its time is told as it reads now; the row keeps the
// time that is planned.
func TestAnEditedScheduleIsToldAsItReads(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t, harness.TimesTable)
	w := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"a": 1}).With(harness.UsesAll).StartWorker(t)
	later(t, db, 1, "a", 3600, "schedule = 'every 2h'")
	await(t, w, 1, "recurring", `job 1 recurs every 2h, next run `+clock+` `+ahead)
	db.Exec(t, "UPDATE jobs SET schedule = 'daily 03:00', time_zone = 'Asia/Tokyo' WHERE id = 1")
	await(t, w, 1, "recurring", `job 1 recurs daily 03:00 \(Asia/Tokyo\), next run `+clock+` `+ahead)
	master := harness.StartMaster(t)
	db.Worker(t, "node-2", "/bin/true {id}", map[string]int{"a": 1}).With(harness.UsesAll, harness.MasterOf(master)).StartWorker(t)
	await(t, master, 1, "recurring", `job 1 recurs daily 03:00 \(Asia/Tokyo\), next run `+clock+` `+ahead, "--master")
}
