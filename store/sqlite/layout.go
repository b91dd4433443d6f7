package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"jobd/store"
)

// layout is what the table is like: which of its columns take NULL.
type layout struct {
	nullable map[string]bool // by name in lower case
}

// empty is a column's value for nothing.
func (l *layout) empty(column string) any {
	if l.nullable[strings.ToLower(column)] {
		return nil
	}
	return ""
}

// Check implements store.Table. It makes the table where the file is new, until it was there once.
func (t *Table) Check(ctx context.Context) error {
	err := t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (created bool, err error) {
		if !t.known.Load() {
			if created, err = t.createIn(ctx, tx); err != nil {
				return false, err
			}
		}
		return created, t.examine(ctx, tx)
	})
	op := "check table " + t.config.Table + " in " + t.config.Path
	if err == nil {
		t.known.Store(true)
		return nil
	}
	t.layout.Store(nil)
	var unreachable *store.Unreachable
	switch {
	case errors.As(err, &unreachable):
		return err
	case isUnusable(err):
		return &store.Unusable{Op: op, Err: err}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// examined is what the table is like; it looks where that is not known.
func (t *Table) examined(ctx context.Context) (*layout, error) {
	if known := t.layout.Load(); known != nil {
		return known, nil
	}
	if err := t.Check(ctx); err != nil {
		return nil, err
	}
	return t.layout.Load(), nil
}

// createIn makes the table in a file that holds nothing yet: the one table that jobd may create.
func (t *Table) createIn(ctx context.Context, tx *sql.Tx) (created bool, err error) {
	var things int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_schema").Scan(&things); err != nil || things > 0 {
		return false, err
	}
	claimColumn := ""
	if !strings.EqualFold(t.config.ClaimColumn, sigColumn) {
		claimColumn = quote(t.config.ClaimColumn) + " TEXT,"
	}
	table := quote(t.config.Table)
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE %s (
		id            INTEGER PRIMARY KEY AUTOINCREMENT,
		target        TEXT NOT NULL,
		time_created  INTEGER NOT NULL,
		time_started  INTEGER NOT NULL DEFAULT 0,
		time_finished INTEGER NOT NULL DEFAULT 0,
		status        TEXT NOT NULL DEFAULT 'waiting'
			CHECK (status IN ('waiting','manual','accepted','running','done','ignored')),
		result        TEXT CHECK (result IN ('ok','fail')),
		return_code   INTEGER,
		sig           TEXT,
		%s
		stdout        TEXT,
		stderr        TEXT
	)`, table, claimColumn))
	if err != nil {
		return false, fmt.Errorf("create the table: %w", err)
	}
	_, err = tx.ExecContext(ctx, "CREATE INDEX "+quote(t.config.Table+"_status_target_idx")+" ON "+table+" (status, target, id)")
	return true, err
}

// examine reads the table's columns and keeps what it found.
func (t *Table) examine(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT name, "notnull" FROM pragma_table_info(?)`, t.config.Table)
	if err != nil {
		return err
	}
	defer rows.Close()
	found := layout{nullable: map[string]bool{}}
	for rows.Next() {
		var name string
		var notNull bool
		if err := rows.Scan(&name, &notNull); err != nil {
			return err
		}
		found.nullable[strings.ToLower(name)] = !notNull
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := t.complete(&found); err != nil {
		return err
	}
	if err := t.examineUpdate(ctx, tx); err != nil {
		return err
	}
	t.layout.Store(&found)
	return nil
}

// examineUpdate updates no row, which shows whether the triggers that an update sets off can run at all.
func (t *Table) examineUpdate(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE "+quote(t.config.Table)+" SET status = status, time_started = time_started WHERE 1=0")
	return err
}

// complete refuses a file without the table and a table without a column that it needs.
func (t *Table) complete(found *layout) error {
	if len(found.nullable) == 0 {
		return misfit{"the file has other content, but no such table: name the table in it, or a new file"}
	}
	required := []string{
		"id", "target", "time_created", "time_started", "time_finished",
		"status", "result", "return_code", sigColumn, "stdout", "stderr", t.config.ClaimColumn,
	}
	missing := slices.DeleteFunc(required, func(name string) bool {
		_, ok := found.nullable[strings.ToLower(name)]
		return ok
	})
	if len(missing) > 0 {
		return misfit{"it has no column " + strings.Join(slices.Compact(missing), ", ")}
	}
	return nil
}

// misfit is an error of the table itself, which somebody has to change.
type misfit struct{ text string }

func (m misfit) Error() string { return m.text }
