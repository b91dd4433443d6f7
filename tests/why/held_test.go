package why

import (
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A job that is to start while somebody holds its row lends its slot to others, and says so.
func TestAJobWhoseRowIsHeld(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher, open := gate(t, "exit 0")
	w := db.Worker(t, "node-1", launcher, map[string]int{"a": 1}).With(harness.Settings{"prefetch": "1"}).StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	db.Insert(t, 2, "a", "waiting")
	jobctl(t, w, "poll")
	await(t, w, 2, "prefetched", "job 2 was claimed by node-1 .*")
	tx := must.Get(db.Admin.Begin())(t)
	defer tx.Rollback()
	must.Get(tx.Exec("SELECT * FROM jobs WHERE id = 2 FOR UPDATE"))(t)
	open()
	await(t, w, 2, "parked", `job 2 is about to start on node-1, and has lent its slot to others meanwhile: its row can't be made running since `+clock+`: .+`)
	must.Do(t, tx.Rollback())
	db.AwaitDone(t, 2)
	await(t, w, 2, "done", "job 2 is done: ok .*")
}
