package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strings"

	"jobd/store/internal/rule"
)

// What Gearman's clients submit becomes rows: nothing else is ever inserted, and only into a file of this kind. A
// crash before the commit leaves no row, and no client was told of one.

// Submitted is a job that is to be a row.
type Submitted struct {
	Target    string
	UniqueKey string // "": it is never joined with another one
	Workload  []byte
	Priority  int
	RunAt     int64 // seconds since 1970; not before that
	Most      int   // rows of the target that may be under way, with this one; 0: nothing bounds them
}

// Taken is what has become of a Submitted.
type Taken struct {
	ID     int64
	Joined bool  // the row was there, with its unique key
	Full   bool  // the target has its Most
	Err    error // the table does not take it
}

// live is the condition that a row is not at its end, and may be run unasked.
const live = "status IN ('waiting', 'delayed', 'accepted', 'running')"

// Submit inserts rows, all in one transaction, in which it tells what becomes of each, in their order: before anybody
// sees them. Where it fails, or taken does, nothing has become of any.
func (t *Table) Submit(ctx context.Context, jobs []Submitted, taken func([]Taken) error) error {
	if _, err := t.layout.Get(ctx); err != nil {
		return err
	}
	err := t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (bool, error) {
		insert, err := tx.PrepareContext(ctx, "INSERT INTO "+quote(t.config.Table)+
			" (target, time_created, status, workload, unique_key, priority, run_at) VALUES"+
			" (?1, unixepoch(), CASE WHEN ?5 > unixepoch() THEN 'delayed' ELSE 'waiting' END, ?2, ?3, ?4, CASE WHEN ?5 > unixepoch() THEN ?5 ELSE 0 END)"+
			" ON CONFLICT (unique_key) DO NOTHING")
		if err != nil {
			return false, err
		}
		defer insert.Close()
		all := make([]Taken, len(jobs))
		for i, job := range jobs {
			if all[i], err = t.submit(ctx, tx, insert, job); err != nil {
				return false, err
			}
		}
		err = taken(all)
		return err == nil, err
	})
	return t.Fail("insert what was submitted", err)
}

// submit inserts one row. Its error is about all.
func (t *Table) submit(ctx context.Context, tx *sql.Tx, insert *sql.Stmt, job Submitted) (taken Taken, err error) {
	key := sql.NullString{String: job.UniqueKey, Valid: job.UniqueKey != ""}
	joins := func() error {
		err := tx.QueryRowContext(ctx, "SELECT id FROM "+quote(t.config.Table)+" WHERE unique_key = ?", key).Scan(&taken.ID)
		taken.Joined = err == nil
		return err
	}
	if job.Most > 0 {
		if err := joins(); !errors.Is(err, sql.ErrNoRows) {
			return taken, err
		}
		var n int
		count := "SELECT COUNT(*) FROM (SELECT 1 FROM " + quote(t.config.Table) + " WHERE " + live + " AND target = ? LIMIT ?)"
		if err := tx.QueryRowContext(ctx, count, job.Target, job.Most).Scan(&n); err != nil || n >= job.Most {
			return Taken{Full: true}, err
		}
	}
	result, err := insert.ExecContext(ctx, job.Target, job.Workload, key, job.Priority, job.RunAt)
	if err != nil {
		if aboutRows(err) {
			return Taken{Err: err}, nil
		}
		return taken, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return taken, cmp.Or(err, joins())
	}
	taken.ID, err = result.LastInsertId()
	return taken, err
}

// Workload is what a row has for the one who runs it.
type Workload struct {
	ID        int64
	Bytes     []byte
	Size      int // of the whole of it, where Bytes is left out
	UniqueKey string
	Null      bool // there is none: it was not submitted
}

// Workloads reads what rows have. The bytes of one that is longer than most are left out.
func (t *Table) Workloads(ctx context.Context, ids []int64, most int) (all []Workload, err error) {
	if !t.config.Submits {
		return nil, nil
	}
	query := "SELECT id, CASE WHEN octet_length(workload) <= ? THEN workload END, COALESCE(octet_length(workload), 0), workload IS NULL, " +
		"COALESCE(unique_key, '') FROM " + quote(t.config.Table) + " WHERE id IN (" + marks(len(ids)) + ")"
	return all, t.read(ctx, query, append([]any{most}, values(ids)...), func(scan func(...any) error) error {
		var w Workload
		err := scan(&w.ID, &w.Bytes, &w.Size, &w.Null, &w.UniqueKey)
		all = append(all, w)
		return err
	})
}

// Submission is how a row stands that was submitted.
type Submission struct {
	ID                int64
	Target, UniqueKey string
	Status, Result    string
	Stdout            []byte // of one that is done
}

// Submissions tells of rows by their ids, or unique keys. Rows that are not there are not told of.
func (t *Table) Submissions(ctx context.Context, ids []int64, keys []string) ([]Submission, error) {
	return t.submissions(ctx, "WHERE id IN ("+marks(len(ids))+") OR unique_key IN ("+marks(len(keys))+")", append(values(ids), values(keys)...))
}

// Live lists rows that are not at their end, the oldest first, so many at most.
func (t *Table) Live(ctx context.Context, most int) ([]Submission, error) {
	return t.submissions(ctx, "WHERE "+live+" ORDER BY id LIMIT ?", []any{most})
}

func (t *Table) submissions(ctx context.Context, where string, args []any) (all []Submission, err error) {
	query := "SELECT id, target, COALESCE(unique_key, ''), status, COALESCE(result, ''), CASE status WHEN 'done' THEN CAST(stdout AS BLOB) END FROM " +
		quote(t.config.Table) + " " + where
	return all, t.read(ctx, query, args, func(scan func(...any) error) error {
		var s Submission
		err := scan(&s.ID, &s.Target, &s.UniqueKey, &s.Status, &s.Result, &s.Stdout)
		all = append(all, s)
		return err
	})
}

// Amount is how many rows of a target and a priority there are.
type Amount struct {
	Target      string
	Priority, N int
}

// Amounts counts rows that are not at their end.
func (t *Table) Amounts(ctx context.Context) (all []Amount, err error) {
	query := "SELECT target, priority, COUNT(*) FROM " + quote(t.config.Table) + " WHERE " + live + " GROUP BY target, priority"
	return all, t.read(ctx, query, nil, func(scan func(...any) error) error {
		var a Amount
		err := scan(&a.Target, &a.Priority, &a.N)
		all = append(all, a)
		return err
	})
}

// Targets lists the targets of rows that are not at their end.
func (t *Table) Targets(ctx context.Context) (names []string, err error) {
	query := "SELECT DISTINCT target FROM " + quote(t.config.Table) + " WHERE " + live
	return names, t.read(ctx, query, nil, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	})
}

// Functions lists those of the Targets that have rows which were submitted.
func (t *Table) Functions(ctx context.Context) (names []string, err error) {
	all, err := t.Targets(ctx)
	for _, name := range all {
		query := "SELECT 1 FROM " + quote(t.config.Table) + " WHERE " + live + " AND target = ? AND workload IS NOT NULL LIMIT 1"
		err = cmp.Or(err, t.read(ctx, query, []any{name}, func(scan func(...any) error) error {
			names = append(names, name)
			return nil
		}))
	}
	return names, err
}

// read asks one query about what was submitted.
func (t *Table) read(ctx context.Context, query string, args []any, row rule.Row) error {
	if _, err := t.layout.Get(ctx); err != nil {
		return err
	}
	conn, err := t.connect(ctx)
	if err == nil {
		defer conn.Close()
		err = rule.Each(ctx, conn, query, args, row)
	}
	return t.Fail("look at what was submitted", err)
}

func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

func values[T any](of []T) []any {
	all := make([]any, len(of))
	for i, v := range of {
		all[i] = v
	}
	return all
}
