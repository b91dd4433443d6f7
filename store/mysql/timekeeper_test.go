package mysql_test

import (
	"strings"
	"testing"
	"time"

	"jobd/store"
	"jobd/store/storetest"
)

// timekeeperTable is the usual table with all optional columns and what goes with them.
func timekeeperTable() string {
	return replaced("'done','ignored'", "'done','ignored','delayed'", "`stdout` mediumtext", "`run_at` bigint UNSIGNED NOT NULL DEFAULT 0, "+
		"`planned_at` int UNSIGNED NOT NULL DEFAULT 0, `schedule` varchar(64) DEFAULT NULL, `time_zone` varchar(64) DEFAULT NULL, "+
		"`attempts` smallint UNSIGNED NOT NULL DEFAULT 0, `max_attempts` smallint UNSIGNED DEFAULT NULL, `timeout` int UNSIGNED DEFAULT NULL, "+
		"KEY `status_target_due_idx` (`status`, `target`, `run_at`), `stdout` mediumtext")
}

func TestTimekeeper(t *testing.T) {
	t.Parallel()
	db := newDatabaseOn(t, shared, timekeeperTable())
	config := db.config()
	for _, name := range store.TimeColumns() {
		if name != store.ColumnPriority && name != store.ColumnUniqueKey {
			config.Uses = append(config.Uses, name)
		}
	}
	storetest.RunTimekeeper(t, db.app, confirmed(t, open(t, config)), db.table(t))
}

// Of twenty thousand rows that have ended none is read on the way to those that recur.
func TestRowsThatHaveEndedAreNotReadForThoseThatRecur(t *testing.T) {
	t.Parallel()
	db := newDatabaseOn(t, shared, timekeeperTable())
	config := db.config()
	config.Uses = store.Uses{store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnSchedule}
	db.double(t, "a", 20_000)
	db.exec(t, "UPDATE jobs SET status = 'done', schedule = 'every 5m'")
	db.exec(t, "INSERT INTO jobs (target, time_created, status, schedule) VALUES ('a', 1, 'delayed', 'every 5m')")
	db.exec(t, "ANALYZE TABLE jobs")
	log := &statements{}
	db.record(t, log, func() {
		table := confirmed(t, open(t, config))
		if rows, err := table.Recurring(t.Context(), []string{"a"}, 0, 100); err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	})
	query := log.with("ORDER BY id + 0")
	// Until MySQL has swept up what the update left in the index, it counts that, too.
	plan, again := "", time.NewTicker(100*time.Millisecond)
	defer again.Stop()
	for range 600 {
		if plan = strings.Join(db.plan(t, unlimited(query)), "\n"); strings.Contains(plan, "key=status_target") {
			return
		}
		<-again.C
		db.exec(t, "ANALYZE TABLE jobs")
	}
	t.Errorf("%s: %s", query, plan)
}
