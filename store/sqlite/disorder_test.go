package sqlite_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/sqlite"
)

// loose is a jobs table as an application may have made it, in whose columns anything may stand.
const loose = `CREATE TABLE jobs (id INTEGER PRIMARY KEY, target COLLATE NOCASE, time_created, time_started, time_finished,
	status DEFAULT 'waiting', result, return_code, sig, stdout, stderr); CREATE INDEX claims ON jobs (status, target)`

// looseTable is such a table and the application's access to it.
func looseTable(t *testing.T, ddl string) (*sqlite.Table, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := application(t, path)
	exec(t, db, ddl)
	return confirmed(t, open(t, sqlite.Config{Path: path})), db
}

// untimed takes out of rows when they were read.
func untimed(rows []journal.Row) []journal.Row {
	for i := range rows {
		rows[i].Now = time.Time{}
	}
	return rows
}

// No content of a column makes a method fail: not NULL, not text where a number is expected.
func TestAnyValueInAnyColumn(t *testing.T) {
	t.Parallel()
	table, db := looseTable(t, loose)
	exec(t, db, "INSERT INTO jobs (id, target, status, sig) VALUES (1, NULL, NULL, NULL), (2, x'ff00', 17, x'ff'), (3, 4.5, 'running', 12), (0, 'a', 'waiting', NULL)")
	exec(t, db, "INSERT INTO jobs (id, target, time_created, time_started, sig) VALUES (5, 'A', 'yesterday', 'now', 99)")
	rows, _, err := table.Rows(t.Context(), []int64{1, 2, 3, 0, 5})
	if err != nil || len(rows) != 4 || untimed(rows)[0] != (journal.Row{Job: 1, Target: "null"}) {
		t.Errorf("Rows: %+v, %v", rows, err)
	}
	if _, err := table.UnderWay(t.Context(), "1", []string{"a"}); err != nil {
		t.Errorf("UnderWay: %v", err)
	}
	var got []journal.Row
	err = table.Claim(t.Context(), map[string]int{"a": 5}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		got = rows
		return nil, nil
	})
	if diff := cmp.Diff([]journal.Row{{Job: 5, Target: "a", Status: "waiting", Owner: "99"}}, untimed(got)); diff != "" || err != nil {
		t.Errorf("Claim: %v (-want +got):\n%s", err, diff)
	}
	_, err = table.ClaimManual(t.Context(), []int64{5}, []string{"b", "a"}, func(rows []journal.Row) ([]journal.Event, error) {
		got = rows
		return nil, nil
	})
	if err != nil || len(got) != 1 || got[0].Target != "a" {
		t.Errorf("ClaimManual: %+v, %v; want the target that the column takes it for", got, err)
	}
}

// A row whose id is no whole number, or 0, is left out. A negative one is an id.
func TestIDThatIsNoNumber(t *testing.T) {
	t.Parallel()
	table, db := looseTable(t, strings.Replace(loose, "id INTEGER PRIMARY KEY", "id PRIMARY KEY", 1))
	exec(t, db, "INSERT INTO jobs (id, target) VALUES ('first', 'a'), (NULL, 'a'), (1.5, 'a'), (x'00', 'a'), (0, 'a'), (7, 'a')")
	for range 2 {
		var got []journal.Row
		err := table.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			got = rows
			return nil, nil
		})
		if err != nil || len(got) != 1 || got[0].Job != 7 {
			t.Errorf("Claim: %+v, %v", got, err)
		}
	}
	exec(t, db, "INSERT INTO jobs (id, target, status) VALUES (-3, 'a', 'manual')")
	if rows, _, err := table.Rows(t.Context(), []int64{0, -3}); err != nil || len(rows) != 1 || rows[0].Job != -3 {
		t.Errorf("Rows: %+v, %v", rows, err)
	}
	if waiting, err := table.Waiting(t.Context(), []string{"a"}, []int64{7}); err != nil || len(waiting) > 0 {
		t.Errorf("Waiting: %v, %v", waiting, err)
	}
}

// Which names are the same is the column's collation's to say.
func TestNames(t *testing.T) {
	t.Parallel()
	for collation, want := range map[string][]string{"": nil, "COLLATE NOCASE": {"A"}, "COLLATE RTRIM": {"a "}} {
		t.Run("collation "+collation, func(t *testing.T) {
			t.Parallel()
			table, _ := looseTable(t, strings.Replace(loose, "COLLATE NOCASE", collation, 1))
			unfit, err := table.Names(t.Context(), []string{"a", "A", "a ", "b", "a"})
			if err != nil || len(unfit) != len(want) {
				t.Fatalf("%v, %v; want %q", unfit, err, want)
			}
			for _, name := range want {
				if !strings.Contains(unfit[name], `for "a"`) {
					t.Errorf("%q: %q", name, unfit[name])
				}
			}
		})
	}
}

// A trigger that fails for one row, of whatever kind, is not taken for the table's being unusable.
func TestRefusedClaimWhateverTheCode(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"abort":    "SELECT RAISE(ABORT, 'no')",
		"rollback": "SELECT RAISE(ROLLBACK, 'no')",
		"fail":     "SELECT RAISE(FAIL, 'no')",
		"no table": "INSERT INTO nowhere VALUES (1)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, db := looseTable(t, loose)
			exec(t, db, "CREATE TABLE nowhere (n)")
			exec(t, db, "INSERT INTO jobs (id, target) VALUES (1, 'a'), (2, 'a'), (3, 'a')")
			exec(t, db, "CREATE TRIGGER rule BEFORE UPDATE ON jobs WHEN NEW.id = 2 BEGIN "+body+"; END")
			exec(t, db, "DROP TABLE nowhere")
			err := table.Claim(t.Context(), map[string]int{"a": 3}, nil, acceptAll)
			var refused *store.RefusedRows
			if !errors.As(err, &refused) || store.IsAway(err) {
				t.Fatalf("got %v; want rows that are refused", err)
			}
			if name != "no table" && (len(refused.Rows) != 1 || refused.Rows[2] == "") {
				t.Errorf("rows at fault: %v", refused.Rows)
			}
			var changed int
			if err := db.QueryRow("SELECT COUNT(*) FROM jobs WHERE status <> 'waiting'").Scan(&changed); err != nil || changed > 0 {
				t.Errorf("%d rows changed, %v", changed, err)
			}
		})
	}
}

func acceptAll(rows []journal.Row) ([]journal.Event, error) {
	var events []journal.Event
	for _, row := range rows {
		events = append(events, journal.Event{Job: row.Job, Payload: journal.Accepted{Target: row.Target, Token: "@abcd01234"}})
	}
	return events, nil
}
