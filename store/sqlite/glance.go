package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"

	"jobd/store"
)

// Glance tells what Findings tells, without a trace: neither the file nor what SQLite keeps beside
// it is made or written. So it may be asked by another account than the worker's, and while the
// worker runs. isNew tells that a start will make the table.
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
	return t.lookThrough(ctx, tx, targets)
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
