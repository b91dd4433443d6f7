package segment

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// schemaVersion is kept in the database's user_version; a segment of another
// version is refused.
const schemaVersion = 3

// schema makes a journal that is hard to change by mistake: the view takes no change, and records
// are neither updated nor deleted. They can be inserted, and so replaced: a trigger against that
// would cost the writer a tenth to a fifth of its time. Verification finds it, and the writer's
// next append meets what was put behind the newest record.
const schema = `
CREATE TABLE segment (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  header BLOB    NOT NULL   -- number, first sequence number, previous hash, checkpoint; covered by the first event's hash
) STRICT;
CREATE TABLE records (
  seq     INTEGER PRIMARY KEY,
  time    INTEGER NOT NULL, -- microseconds since 1970, UTC
  job     INTEGER NOT NULL, -- 0: the worker itself
  kind    TEXT    NOT NULL,
  payload TEXT    NOT NULL, -- JSON
  stdout  BLOB,             -- compressed (zstd) where that saves space; hashed as the job wrote it
  stderr  BLOB,
  hash    BLOB    NOT NULL  -- SHA-256 over the hash before it and this event
) STRICT;
CREATE INDEX records_job ON records (job, seq) WHERE job <> 0;
CREATE TABLE mirror (
  one  INTEGER PRIMARY KEY CHECK (one = 1),
  seq  INTEGER NOT NULL,    -- the newest event that the jobs table shows
  kept INTEGER NOT NULL     -- the oldest segment that retention has left
) STRICT;
CREATE TRIGGER records_no_update BEFORE UPDATE ON records
BEGIN SELECT raise(ABORT, 'the journal is append-only: events are never updated'); END;
CREATE TRIGGER records_no_delete BEFORE DELETE ON records
BEGIN SELECT raise(ABORT, 'the journal is append-only: events are never deleted'); END;
CREATE VIEW events AS SELECT * FROM records; -- for whoever looks: it takes no change at all
PRAGMA user_version = 3;
`

// Appender is one database of events, open for writing by its one writer. It implements disk.
type Appender struct {
	path    string
	db      *sql.DB
	Conn    *sql.Conn
	first   driver.Stmt              // inserts the segment's first event
	inserts [maxRows + 1]driver.Stmt // each inserts as many of those that follow; nil where rowsAtOnce never says so
	empty   bool                     // there is no event yet
	bound   []driver.NamedValue

	begin, note, commit, rollback driver.Stmt

	encoder *zstd.Encoder
	bytes   int64
}

// DatabasePath is where the database of a segment is.
func DatabasePath(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("segment-%08d.db", number))
}

// Make makes the database that a header opens, in one transaction. It may die at any point and be
// called again.
func Make(ctx context.Context, dir string, h Header, n Notes) error {
	path := DatabasePath(dir, h.Number)
	// SQLite gives the write-ahead log the permissions of the database. An existing file is left
	// alone: closing it would drop the locks that this process may hold on it.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make journal: %w", err)
	}
	db := OpenForWriting(path)
	if err := errors.Join(create(ctx, db, h, n), db.Close(), SyncFolder(dir)); err != nil {
		return fmt.Errorf("make journal %s: %w", path, err)
	}
	return nil
}

func create(ctx context.Context, db *sql.DB, h Header, n Notes) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return Damaged(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO segment VALUES (1, ?)`, h.bytes()); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO mirror VALUES (1, ?, ?)`, int64(n.Position), n.Kept); err != nil {
		return err
	}
	return tx.Commit()
}

// maxRows is how many events one statement inserts at most. There is a statement for any number up
// to a fourth of it, since an append that needs one only is a transaction by itself.
const maxRows = 64

// rowsAtOnce is how many of n events one statement inserts.
func rowsAtOnce(n int) int {
	switch {
	case n >= maxRows:
		return maxRows
	case n >= maxRows/2:
		return maxRows / 2
	default:
		return min(n, maxRows/4)
	}
}

// OpenAppender opens a database, which was examined, for writing.
func OpenAppender(ctx context.Context, dir string, number int) (*Appender, error) {
	path := DatabasePath(dir, number)
	s := &Appender{path: path, db: OpenForWriting(path), encoder: newEncoder(zstd.SpeedFastest)}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, Damaged(err)), s.Close())
	}
	return s, nil
}

func (s *Appender) open(ctx context.Context) (err error) {
	for _, name := range []string{s.path, s.path + "-wal"} {
		info, err := os.Stat(name)
		if err == nil {
			s.bytes += info.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if s.Conn, err = s.db.Conn(ctx); err != nil {
		return err
	}
	if err := s.Conn.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM records)`).Scan(&s.empty); err != nil {
		return err
	}
	return s.Conn.Raw(func(raw any) error {
		prepare := func(query string) (statement driver.Stmt) {
			if err == nil {
				statement, err = raw.(driver.ConnPrepareContext).PrepareContext(ctx, query)
			}
			return statement
		}
		s.begin, s.commit, s.rollback = prepare(`BEGIN IMMEDIATE`), prepare(`COMMIT`), prepare(`ROLLBACK`)
		s.note = prepare(`UPDATE mirror SET seq = ?, kept = ?`)
		const columns = `time, job, kind, payload, stdout, stderr, hash`
		const row = `?, ?, ?, CAST(? AS TEXT), ?, ?, ?`
		s.first = prepare(`INSERT OR ROLLBACK INTO records (` + columns + `, seq) VALUES (` + row + `, ?)`)
		for n := 1; n <= maxRows; n++ {
			if rowsAtOnce(n) == n {
				s.inserts[n] = prepare(`INSERT OR ROLLBACK INTO records (` + columns + `) VALUES (` + row + `)` + strings.Repeat(`, (`+row+`)`, n-1))
			}
		}
		return err
	})
}

// Close implements disk.
func (s *Appender) Close() error {
	var errs []error
	if s.Conn != nil {
		errs = append(errs, s.Conn.Raw(func(any) error {
			var errs []error
			for _, statement := range append(s.inserts[:], s.first, s.begin, s.note, s.commit, s.rollback) {
				if statement != nil {
					errs = append(errs, statement.Close())
				}
			}
			return errors.Join(errs...)
		}), s.Conn.Close())
	}
	return errors.Join(append(errs, s.db.Close(), s.encoder.Close())...)
}
