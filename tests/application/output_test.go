package application

import (
	"fmt"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

// Tables as they are seen in the field: all of them work, with everything that a job can do.
func TestTablesSeenInTheField(t *testing.T) {
	t.Parallel()
	changed := func(pairs ...string) string {
		table := strings.NewReplacer(pairs...).Replace(dbserver.JobsTable)
		if table == dbserver.JobsTable {
			t.Fatalf("%q changes nothing", pairs)
		}
		return table
	}
	cases := []struct {
		name, table string
		settings    harness.Settings
	}{
		{name: "bigint ids", table: changed("`id` int(10)", "`id` bigint(20)")},
		{name: "long targets", table: changed("char(16)", "varchar(200)")},
		{name: "targets in an ENUM", table: changed("`target` char(16)", "`target` enum('b','a','reports/daily')")},
		{name: "another index", table: changed("KEY `status_target_idx` (`status`, `target`, `id`)", "KEY `by_target` (`target`, `status`, `id`)")},
		{name: "utf8mb4", table: changed("CHARSET=utf8", "CHARSET=utf8mb4")},
		{name: "latin1", table: changed("CHARSET=utf8", "CHARSET=latin1")},
		{name: "output NOT NULL", table: changed("mediumtext DEFAULT NULL", "varchar(500) NOT NULL DEFAULT ''")},
		{name: "output in longtext", table: changed("mediumtext", "longtext")},
		{name: "columns of the application's own", table: changed("PRIMARY KEY", "`payload` text DEFAULT NULL, `tries` int NOT NULL DEFAULT 7, PRIMARY KEY")},
		{
			name: "claims in a column of their own", table: changed("PRIMARY KEY", "`claimed_by` char(10) DEFAULT NULL, PRIMARY KEY"),
			settings: harness.Settings{"claim_column": "claimed_by"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t, c.table)
			launcher := harness.Script(t, `case $1 in 1|4) echo "out $1";; 2) echo bad >&2; exit 255;; 3) kill -TERM $$;; esac`)
			worker := db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 2}).With(c.settings).StartWorker(t)
			for id := range int64(3) {
				db.Insert(t, id+1, "a", "waiting")
			}
			db.Insert(t, 4, "a", "manual")
			client := harness.Dial(t, worker.Addr)
			client.Ask(t, "poll", nil)
			var answer harness.Jobs
			client.Ask(t, "run-manual", map[string]any{"ids": []int{4}}).Decode(t, &answer)
			want := []string{"ok 0 NULL out 1", "fail 255 NULL ", "fail NULL SIGTERM ", "ok 0 NULL out 4"}
			for i, want := range want {
				check.Equal(t, ending(db.AwaitDone(t, int64(i+1))), want, "job %d", i+1)
			}
		})
	}
}

// ending is a row's result, code, signal and output in one line.
func ending(row harness.Row) string {
	code := "NULL"
	if row.Code != nil {
		code = fmt.Sprint(*row.Code)
	}
	return strings.TrimSuffix(fmt.Sprintf("%s %s %s %s", harness.Text(row.Result), code, harness.Text(row.Sig), harness.Text(row.Stdout)), "\n")
}

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// The original set running before it started the launcher, so launchers check it.
func TestLauncherFindsItsRowRunning(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.Script(t, fmt.Sprintf(
		`status=$(%s -N -e "SELECT CONCAT(status, ' ', time_started > 0, ' ', result IS NULL) FROM %s.jobs WHERE id = $1") || exit 3
echo "$status"
[ "${status%%%% *}" = running ]`, db.Client(), db.Name))
	const jobs = 20
	for id := range int64(jobs) {
		db.Insert(t, id+1, "a", "waiting")
	}
	db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 4}).StartWorker(t)
	for id := range int64(jobs) {
		row := db.AwaitDone(t, id+1)
		if got := harness.Text(row.Stdout); got != "running 1 1\n" || harness.Text(row.Result) != "ok" {
			t.Errorf("job %d found its row as %q: %s", id+1, got, row)
		}
	}
}
