package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	_ "modernc.org/sqlite" // registers the driver

	"jobd/store"
	"jobd/store/internal/rule"
)

// New makes a table. The file is opened when the table is first used; errors are about the
// configuration.
func New(config Config) (*Table, error) {
	config.Table = cmp.Or(config.Table, "jobs")
	config.ClaimColumn = cmp.Or(config.ClaimColumn, store.SigColumn)
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.OnServer == nil {
		config.OnServer = func() {}
	}
	if config.Path == "" {
		return nil, errors.New("sqlite table: the path is empty: a file's path is needed")
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, fmt.Errorf("sqlite table %s: %w", config.Path, err)
	}
	registered, err := sql.Open("sqlite", "") // opens nothing
	if err != nil {
		return nil, fmt.Errorf("sqlite table %s: %w", config.Path, err)
	}
	t := &Table{config: config, path: path}
	t.servers.OnServer, t.layout.Examine = config.OnServer, t.Check
	t.failures = rule.Failures{
		IsDubious: isDubious, IsUnusable: isUnusable, IsUnreachable: func(error) bool { return false },
		Check:   func() error { return t.Check(context.Background()) },
		Forget:  func() { t.layout.Store(nil) },
		Explain: func(err error) error { return err },
	}
	t.db = sql.OpenDB(files{registered.Driver(), t})
	t.db.SetMaxOpenConns(1) // there is one writer, and we only write
	return t, registered.Close()
}

// Close implements store.Table.
func (t *Table) Close() error { return errors.Join(t.locks.close(), t.db.Close()) }
