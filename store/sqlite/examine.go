package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"jobd/store"
)

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
		if found, _ := t.inspectFile(); len(found) > 0 {
			err = fmt.Errorf("%w: %s; %s", err, found[0].What, found[0].Remedy)
		}
	}
	return t.failures.Certain(op, err)
}

// createIn makes the table in a file that holds nothing yet: the one table that jobd may create.
func (t *Table) createIn(ctx context.Context, tx *sql.Tx) (created bool, err error) {
	var things int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_schema").Scan(&things); err != nil || things > 0 {
		return false, err
	}
	claimColumn := ""
	if !strings.EqualFold(t.config.ClaimColumn, store.SigColumn) {
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
			CHECK (status IN ('waiting','manual','accepted','running','done','ignored','delayed')),
		result        TEXT CHECK (result IN ('ok','fail')),
		return_code   INTEGER,
		sig           TEXT,
		%s
		stdout        TEXT,
		stderr        TEXT%s
	)`, table, claimColumn, t.optionalColumns()))
	if err != nil {
		return false, fmt.Errorf("create the table: %w", err)
	}
	for _, name := range []string{"id", store.ColumnRunAt, store.ColumnPriority, store.ColumnUniqueKey} {
		if strings.EqualFold(name, t.config.ClaimColumn) {
			continue
		}
		if _, err := tx.ExecContext(ctx, "CREATE "+indexOn(name, t.config.Table, nil)); err != nil {
			return false, fmt.Errorf("create an index: %w", err)
		}
	}
	return true, nil
}

// optionalColumns are the columns about time of a table that is made: all of them, whoever uses
// them.
func (t *Table) optionalColumns() (list string) {
	for _, name := range store.TimeColumns() {
		if !strings.EqualFold(name, t.config.ClaimColumn) {
			list += ",\n\t\t" + name + " " + optionalType(name)
		}
	}
	return list
}

// examine looks at the table and keeps what it found. Faults are its error, all of them at once; of
// the rest it warns.
func (t *Table) examine(ctx context.Context, tx *sql.Tx) error {
	found, err := t.inspect(ctx, tx)
	if err != nil {
		return err
	}
	if err := found.Err(); err != nil {
		return err
	}
	if err := t.examineUpdate(ctx, tx); err != nil {
		return err
	}
	for _, finding := range found.List {
		t.warn(finding)
	}
	t.layout.Store(&found.layout)
	return nil
}

// warn logs a finding the first time.
func (t *Table) warn(finding store.Finding) {
	text := finding.Advice()
	if _, given := t.warned.LoadOrStore(text, true); !given {
		t.config.Logger.Warn(text, "table", t.config.Table, "file", t.path)
	}
}

// examineUpdate updates no row, which shows whether the triggers that an update sets off can run at
// all.
func (t *Table) examineUpdate(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE "+quote(t.config.Table)+" SET status = status, time_started = time_started WHERE 1=0")
	return err
}
