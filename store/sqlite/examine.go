package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"jobd/store"
	"jobd/store/internal/rule"
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
	if errors.As(err, &unreachable) {
		return err
	}
	if fault, _ := sortError(err); fault == rule.Unusable {
		if found, _ := t.inspectFile(); len(found) > 0 {
			err = fmt.Errorf("%w: %s; %s", err, found[0].What, found[0].Remedy)
		}
	}
	return t.Certain(op, err)
}

// createIn makes the table in a file that holds nothing yet: the one table that jobd may create.
func (t *Table) createIn(ctx context.Context, tx *sql.Tx) (created bool, err error) {
	var things int
	if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_schema").Scan(&things); err != nil || things > 0 {
		return false, err
	}
	columns := store.Columns()
	if !strings.EqualFold(t.config.ClaimColumn, store.SigColumn) {
		columns = append(columns, t.config.ClaimColumn)
	}
	for _, name := range store.TimeColumns() { // all of them, also those that this worker does not use
		if !strings.EqualFold(name, t.config.ClaimColumn) {
			columns = append(columns, name)
		}
	}
	columns = append(columns, store.ColumnWorkload)
	for i, name := range columns {
		columns[i] = quote(name) + " " + typeOf(name)
		switch name {
		case "status":
			columns[i] += " DEFAULT 'waiting' CHECK (status IN ('" + strings.Join(store.Statuses(store.TimeColumns()), "','") + "'))"
		case "result":
			columns[i] += " CHECK (result IN ('ok','fail'))"
		}
	}
	needed := t.needed()
	needed.Uses = store.TimeColumns()
	if _, err := tx.ExecContext(ctx, "CREATE TABLE "+needed.Table+" ("+strings.Join(columns, ", ")+")"); err != nil {
		return false, fmt.Errorf("create the table: %w", err)
	}
	for _, statement := range needed.Indexes() {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return false, fmt.Errorf("create an index: %w", err)
		}
	}
	return true, nil
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
	for _, finding := range append(found.List, found.Bare...) {
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

// Glance tells all that is wrong with the table, and with names of targets, faults first, and leaves no
// trace: neither the file nor what SQLite keeps beside it is made or written. So it may be asked by another
// account than the worker's, and while the worker runs. isNew tells that a start will make the table. An
// error is among the findings, too.
func Glance(ctx context.Context, config Config, targets []string) (findings []store.Finding, isNew bool, err error) {
	t, err := New(config)
	if err != nil {
		return nil, false, err
	}
	defer t.Close()
	if found, isNew := t.inspectFile(); isNew || len(found) > 0 {
		return found, isNew, nil
	}
	db, err := sql.Open("sqlite", readOnly(t.path))
	if err != nil {
		return nil, false, err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, false, err
	}
	defer tx.Rollback() // there is nothing to commit
	var things int
	if err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_schema").Scan(&things); err == nil && things == 0 {
		return nil, true, nil
	}
	seen := &inspection{}
	if err == nil {
		seen, err = t.inspect(ctx, tx)
	}
	if err == nil && !seen.IsFaulty() {
		var unfit map[string]string
		unfit, err = t.alike(ctx, tx, targets)
		seen.Unserved(unfit)
	}
	if err != nil {
		seen.List = append(seen.List, store.Finding{Severity: store.Fault, Where: "file " + t.path, What: err.Error()})
	}
	return seen.All(), false, err
}

// readOnly names the file to the driver so that nothing is written. Where there is no write-ahead
// log nobody has it open: then SQLite is told that nobody writes it, or it would make the log's
// index.
func readOnly(path string) string {
	options := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(2000)", "query_only(1)"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		options.Set("immutable", "1")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}).String()
}
