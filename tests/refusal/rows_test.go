package refusal

import (
	"testing"

	"jobd/tests/harness"
)

// Regression: when the table refused more than 3,000 rows of a target, those behind them waited for ever.
func TestRowsBehindThousandsOfRefusedOnes(t *testing.T) {
	t.Parallel()
	const refused = 3200
	db := harness.NewDatabase(t)
	db.Exec(t, "ALTER TABLE jobs ADD COLUMN weight INT NOT NULL DEFAULT 1")
	db.InsertMany(t, refused, "a", "waiting")
	db.Exec(t, "UPDATE jobs SET weight = 0")
	for id := range int64(5) {
		db.Insert(t, refused+1+id, "a", "waiting")
	}
	db.Exec(t, `CREATE TRIGGER heavy BEFORE UPDATE ON jobs FOR EACH ROW
		IF NEW.weight = 0 AND NEW.status <> 'waiting' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'weight is 0'; END IF`)
	worker := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 200}).
		With(harness.Settings{"prefetch": "200"}).StartWorker(t)
	db.AwaitCount(t, 5, "status = 'done' AND result = 'ok'")
	db.Insert(t, 2*refused, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	db.AwaitDone(t, 2*refused)
	db.AwaitCount(t, refused, "status = 'waiting'")
}
