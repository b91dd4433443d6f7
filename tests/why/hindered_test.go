package why

import (
	"testing"

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
