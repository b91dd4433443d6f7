package harness

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Row is a job's row as the application reads it.
type Row struct {
	Target, Status    string
	Result, Sig       *string
	Code              *int
	Stdout, Stderr    *string
	Started, Finished int64
}

// Text is what a pointer holds, "NULL" where there is none.
func Text(s *string) string {
	if s == nil {
		return "NULL"
	}
	return *s
}

// String is for test failures: output is cut.
func (r Row) String() string {
	code := "NULL"
	if r.Code != nil {
		code = fmt.Sprint(*r.Code)
	}
	return fmt.Sprintf("{target %s, %s, result %s, code %s, sig %s, started %d, finished %d, stdout %.80q, stderr %.200q}",
		r.Target, r.Status, Text(r.Result), code, Text(r.Sig), r.Started, r.Finished, Text(r.Stdout), Text(r.Stderr))
}

// Insert adds a job as the application does.
func (db *Database) Insert(t testing.TB, id int64, target, status string) {
	t.Helper()
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES (?, ?, UNIX_TIMESTAMP(), ?)", id, target, status)
}

// InsertMany adds jobs with the ids 1 to n in one statement.
func (db *Database) InsertMany(t testing.TB, n int, target, status string) {
	t.Helper()
	rows := make([]string, n)
	args := make([]any, 0, 3*n)
	for i := range rows {
		rows[i] = "(?, ?, UNIX_TIMESTAMP(), ?)"
		args = append(args, i+1, target, status)
	}
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES "+strings.Join(rows, ", "), args...)
}

// Exec runs a statement as the application.
func (db *Database) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Admin.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%.100s: %v", statement, err)
	}
}

// Row reads a job's row.
func (db *Database) Row(t testing.TB, id int64) Row {
	t.Helper()
	var r Row
	err := db.Admin.QueryRowContext(t.Context(),
		"SELECT target, status, result, return_code, sig, stdout, stderr, time_started, time_finished FROM jobs WHERE id = ?", id).
		Scan(&r.Target, &r.Status, &r.Result, &r.Code, &r.Sig, &r.Stdout, &r.Stderr, &r.Started, &r.Finished)
	if err != nil {
		t.Fatalf("read row %d: %v", id, err)
	}
	return r
}

// Count tells how many rows a condition holds for.
func (db *Database) Count(t testing.TB, where string, args ...any) int {
	t.Helper()
	var n int
	if err := db.Admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM jobs WHERE "+where, args...).Scan(&n); err != nil {
		t.Fatalf("count rows where %s: %v", where, err)
	}
	return n
}

// AwaitStatus waits until the job's row has the status.
func (db *Database) AwaitStatus(t testing.TB, id int64, status string) Row {
	t.Helper()
	var row Row
	Until(t, func() string {
		if row = db.Row(t, id); row.Status != status {
			return fmt.Sprintf("job %d is not %s but %s", id, status, row)
		}
		return ""
	})
	return row
}

// AwaitDone waits until the job has ended.
func (db *Database) AwaitDone(t testing.TB, id int64) Row {
	t.Helper()
	return db.AwaitStatus(t, id, "done")
}

// AwaitCount waits until a condition holds for n rows.
func (db *Database) AwaitCount(t testing.TB, n int, where string, args ...any) {
	t.Helper()
	Until(t, func() string {
		if got := db.Count(t, where, args...); got != n {
			return fmt.Sprintf("%d rows, not %d, where %s", got, n, where)
		}
		return ""
	})
}

// AwaitFile waits until a file exists: how launchers tell where they are.
func AwaitFile(t testing.TB, file string) {
	t.Helper()
	Until(t, func() string {
		if _, err := os.Stat(file); err != nil {
			return err.Error()
		}
		return ""
	})
}

// AwaitWorkers waits until the master knows n workers.
func AwaitWorkers(t testing.TB, master *Daemon, password string, n int) {
	t.Helper()
	client := Dial(t, master.Addr)
	defer client.Close()
	client.Authorise(t, password)
	Until(t, func() string {
		var status struct{ Workers []struct{ Name string } }
		client.Ask(t, "status", nil).Decode(t, &status)
		if len(status.Workers) != n {
			return fmt.Sprintf("the master knows %v, not %d workers", status.Workers, n)
		}
		return ""
	})
}
