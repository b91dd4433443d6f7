package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	_ "modernc.org/sqlite" // registers the driver

	"jobd/store"
	"jobd/store/internal/rule"
)

// Config says where the table is. Zero values mean the default.
type Config struct {
	Path        string     // of the file; made, with the table in it, where it does not exist
	Table       string     // jobs
	ClaimColumn string     // the owner column; sig
	Uses        store.Uses // the optional columns that are jobd's
	Worker      string     // the worker's name, for an owner column other than sig
	Submits     bool       // rows are inserted for Gearman's clients: the table needs a column for workloads

	// OnServer is called when a file is opened that claims are not made in, because another one or
	// none was confirmed. It must not block.
	OnServer func()
	Logger   *slog.Logger // slog.Default()
}

// Table is a jobs table in an SQLite file. It implements store.Table.
type Table struct {
	rule.Reader
	rule.Servers  // on which claims are made
	rule.Failures // what errors mean
	config        Config
	path          string
	db            *sql.DB
	queue         together
	layout        rule.Known[layout]          // nil until the table has been examined
	file          atomic.Pointer[fs.FileInfo] // that is open
	known         atomic.Bool                 // the table was there once
	locks         locks                       // those that Hold took
	warned        sync.Map                    // findings that were logged
}

var _ store.Table = (*Table)(nil)

// transact calls work in a transaction, which it may share with others, and commits that, unless work fails or says
// that there is nothing to commit. Work may be called once more, where it was undone with what others wanted.
func (t *Table) transact(ctx context.Context, work func(ctx context.Context, tx *sql.Tx) (commit bool, err error)) error {
	return t.do(&part{ctx: ctx, work: work})
}

// quote makes an identifier of any text.
func quote(identifier string) string {
	return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"`
}

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
	t.Reader = t.reader()
	t.OnServer, t.layout.Examine = config.OnServer, t.Check
	t.Failures = rule.Failures{
		Sort:    sortError,
		Check:   t.Check,
		Forget:  func() { t.layout.Store(nil) },
		Explain: func(err error) error { return err },
	}
	t.db = sql.OpenDB(files{registered.Driver(), t})
	t.db.SetMaxOpenConns(1) // there is one writer, and we only write
	return t, registered.Close()
}

// Close implements store.Table.
func (t *Table) Close() error { return errors.Join(t.locks.close(), t.db.Close()) }

// layout is what the table is like.
type layout struct{ rule.Shape }

// inspection is an examination of the table: what it is like, and what is wrong with it.
type inspection struct {
	layout
	rule.Findings
	statuses []string // that a CHECK allows; nil: any
	keyed    bool     // the id is the rowid
}
