package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	_ "modernc.org/sqlite" // registers the driver

	"jobd/store"
)

// Config says where the table is. Zero values mean the default.
type Config struct {
	Path        string // of the file; made, with the table in it, where it does not exist
	Table       string // jobs
	ClaimColumn string // the owner column; sig
	Worker      string // the worker's name, for an owner column other than sig
}

// sigColumn is the owner column where no other is configured.
const sigColumn = "sig"

// Table is a jobs table in an SQLite file. It implements store.Table.
type Table struct {
	config Config
	db     *sql.DB
	layout atomic.Pointer[layout] // nil until the table has been examined
}

var _ store.Table = (*Table)(nil)

// New makes a table. The file is opened when the table is first used; errors are about the configuration.
func New(config Config) (*Table, error) {
	config.Table = cmp.Or(config.Table, "jobs")
	config.ClaimColumn = cmp.Or(config.ClaimColumn, sigColumn)
	if config.Path == "" {
		return nil, errors.New("sqlite table: the path is empty: a file's path is needed")
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite table %s: %w", config.Path, err)
	}
	db, err := sql.Open("sqlite", source(path))
	if err != nil {
		return nil, fmt.Errorf("sqlite table %s: %w", config.Path, err)
	}
	db.SetMaxOpenConns(1) // there is one writer, and we only write
	return &Table{config: config, db: db}, nil
}

// source names the file to the driver, with what every connection to it needs (pitfall 18).
func source(path string) string {
	options := url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}).String()
}

// Close implements store.Table.
func (t *Table) Close() error { return t.db.Close() }

// transact calls work in a transaction and commits it, unless work fails or says
// that there is nothing to commit. Once begun it is not cancelled.
func (t *Table) transact(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) (commit bool, err error)) error {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx = context.WithoutCancel(ctx)
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // says no more than that it was committed
	commit, err := work(ctx, tx)
	if err != nil || !commit {
		return err
	}
	return tx.Commit()
}

// fail is the error of a method: what the caller needs to know of it is whether waiting helps.
func (t *Table) fail(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case isUnusable(err):
		t.layout.Store(nil)
		return &store.Unusable{Op: op, Err: err}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// quote makes an identifier of any text.
func quote(identifier string) string {
	return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"`
}
