package mysql_test

import (
	"testing"

	"jobd/store"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// More than a hundred thousand rows wait: what is asked about some of them looks at no more rows than its bound says,
// which the server counts.
func TestAheadOfManyRows(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	if _, err := db.app.Exec("SET GLOBAL userstat = 1"); err != nil {
		t.Skipf("this server does not count the rows that are read of a table: %v", err)
	}
	table := db.table(t)
	id := db.insert(t, "a", "waiting", "")
	for range 14 {
		db.exec(t, "INSERT INTO jobs (target, time_created) SELECT target, time_created FROM jobs")
	}
	db.exec(t, "ANALYZE TABLE jobs")
	var newest int64
	must.Do(t, db.app.QueryRow("SELECT MAX(id) FROM jobs").Scan(&newest))
	read := func() (rows int64) {
		must.Do(t, db.app.QueryRow("SELECT COALESCE(SUM(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = 'jobs'", db.name).Scan(&rows))
		return rows
	}
	const most = 1_000
	waiters := []store.Waiter{{Job: id, Target: "a"}, {Job: newest / 2, Target: "a"}, {Job: newest - 1, Target: "a"}, {Job: newest, Target: "a"}}
	before := read()
	ahead := must.Get(table.Ahead(t.Context(), waiters, most))(t)
	if got := ahead[newest]; got != (store.Counted{Rows: most, More: true}) || ahead[id] != (store.Counted{}) {
		t.Errorf("%+v", ahead)
	}
	counted := read()
	if rows := counted - before; rows == 0 || rows > most+int64(len(waiters)) {
		t.Errorf("%d rows were looked at to count them", rows)
	}
	must.Get(table.Details(t.Context(), []int64{id, newest}, []string{"a"}, 100))(t)
	if rows := read() - counted; rows != 2 {
		t.Errorf("%d rows were looked at to show two", rows)
	}
}
