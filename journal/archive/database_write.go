package archive

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"jobd/journal"
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
func Make(ctx context.Context, dir string, h Header, position uint64) error {
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
	if err := errors.Join(create(ctx, db, h, position), db.Close(), SyncFolder(dir)); err != nil {
		return fmt.Errorf("make journal %s: %w", path, err)
	}
	return nil
}

func create(ctx context.Context, db *sql.DB, h Header, position uint64) error {
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
	if _, err := tx.ExecContext(ctx, `INSERT INTO mirror VALUES (1, ?, 1)`, int64(position)); err != nil {
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
	if s.empty { // what an empty database takes is not what a segment's size is about
		s.bytes = 0
	}
	return s.Conn.Raw(func(raw any) error {
		prepare := func(query string) (statement driver.Stmt) {
			if err == nil {
				statement, err = raw.(driver.ConnPrepareContext).PrepareContext(ctx, query)
			}
			return statement
		}
		s.begin, s.commit, s.rollback = prepare(`BEGIN IMMEDIATE`), prepare(`COMMIT`), prepare(`ROLLBACK`)
		s.note = prepare(`UPDATE mirror SET seq = ?`)
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

// Append implements disk. It speaks to the driver directly: database/sql would take as long as
// SQLite.
func (s *Appender) Append(records []Record, position *uint64) error {
	err := s.Conn.Raw(func(any) error {
		if position == nil && rowsAtOnce(len(records)) == len(records) && (!s.empty || len(records) == 1) {
			return s.insert(records) // a statement alone is a transaction of its own
		}
		return s.insertNoted(records, position)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.empty = s.empty && len(records) == 0
	return nil
}

// insertNoted inserts records and the mirror's position, where there is one, in one transaction.
func (s *Appender) insertNoted(records []Record, position *uint64) error {
	if err := run(s.begin); err != nil {
		return err
	}
	err := s.insert(records)
	if err == nil && position != nil {
		err = run(s.note, int64(*position))
	}
	if err == nil {
		err = run(s.commit)
	}
	if err != nil {
		_ = run(s.rollback) // SQLite may have rolled back by itself; then this fails, and means nothing
	}
	return err
}

// run executes a prepared statement.
func run(statement driver.Stmt, values ...int64) error {
	args := make([]driver.NamedValue, len(values))
	for i, value := range values {
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	_, err := statement.(driver.StmtExecContext).ExecContext(context.Background(), args)
	return err
}

// insert inserts records, as many at a time as there are. Those that follow another get the number
// after the last one from SQLite, which is cheaper than to be told, and reports whether anybody
// else has added some.
func (s *Appender) insert(records []Record) error {
	if s.empty && len(records) > 0 {
		if err := s.insertWith(s.first, records[:1], int64(records[0].Seq)); err != nil {
			return err
		}
		records = records[1:]
	}
	for len(records) > 0 {
		n := rowsAtOnce(len(records))
		if err := s.insertWith(s.inserts[n], records[:n]); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

// insertWith inserts records by a statement that takes their columns, and then others.
func (s *Appender) insertWith(statement driver.Stmt, records []Record, others ...driver.Value) error {
	s.bound = s.bound[:0]
	for i := range records {
		r := &records[i]
		stdout, stderr := pack(s.encoder, r.Stdout), pack(s.encoder, r.Stderr)
		s.bytes += int64(recordOverhead + len(r.Payload) + len(stdout) + len(stderr))
		s.bind(r.Micros, r.Job, string(r.Kind), r.Payload, blob(stdout), blob(stderr), r.Hash[:])
	}
	s.bind(others...)
	result, err := statement.(driver.StmtExecContext).ExecContext(context.Background(), s.bound)
	clear(s.bound) // lets go of the output
	if err != nil {
		return fmt.Errorf("events from %d: %w", records[0].Seq, err)
	}
	last, err := result.LastInsertId()
	if want := records[len(records)-1].Seq; err != nil || uint64(last) != want {
		return errors.Join(err, &journal.DamagedError{Seq: records[0].Seq, Detail: "somebody else has added events"})
	}
	return nil
}

func (s *Appender) bind(values ...driver.Value) {
	for _, value := range values {
		s.bound = append(s.bound, driver.NamedValue{Ordinal: len(s.bound) + 1, Value: value})
	}
}

// blob is bytes as a column's value, NULL where there are none.
func blob(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

// Size implements disk.
func (s *Appender) Size() int64 { return s.bytes }

// Checkpoint implements disk. Where a reader is in the way the log stays as it is.
func (s *Appender) Checkpoint(bound int64) error {
	info, err := os.Stat(s.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was written yet, or everything is in the database
	}
	if err != nil || info.Size() <= bound {
		return err
	}
	_, err = s.Conn.ExecContext(context.Background(), `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

// RemoveDatabase removes a database and what belongs to it, the database first: a log without its
// database means nothing, a database without its log something else.
func RemoveDatabase(path string) error {
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// schemaDigest is the SHA-256 of what schemaOf gives of a database that schema has made.
const schemaDigest = "3905cc8a7fad0bf1700c75d9ce685deba5527e05fceae575784973460c4dc918"

// schemaOf gives a database's version and a line for each of its definitions, sorted, as of one moment.
const schemaOf = `SELECT user_version, (SELECT coalesce(group_concat(line, char(10) ORDER BY line) || char(10), '')
	FROM (SELECT type || '|' || name || '|' || tbl_name || '|' || coalesce(sql, '') AS line FROM sqlite_schema))
	FROM pragma_user_version`

// Examine looks whether the database is one that this version can read, and holds what this version
// makes and nothing else: a view that was replaced, a trigger that is gone or was added, would show
// or do something else than what was written. What is not as it should be is damage; found tells
// whether there is anything in it.
func (d *database) Examine(ctx context.Context) (found bool, err error) {
	var version int
	var schema string
	err = d.row(ctx, "", schemaOf, &version, &schema)
	digest := sha256.Sum256([]byte(schema))
	switch {
	case err != nil:
		return false, err
	case version == 0 && schema == "":
		return false, nil
	case version > schemaVersion:
		return false, fmt.Errorf("version %d was written by a newer jobd; this one knows version %d", version, schemaVersion)
	case version == 1 || version == 2:
		return false, fmt.Errorf("version %d was written before the first release, and is not read any more: "+
			"let the jobd that wrote it end its jobs, then move the folder away", version)
	case version != schemaVersion:
		return false, &journal.DamagedError{Detail: fmt.Sprintf("it claims to be of version %d", version)}
	case hex.EncodeToString(digest[:]) != schemaDigest:
		return true, &journal.DamagedError{Detail: "its tables, indexes, triggers and views are not those that it was made with"}
	}
	return true, nil
}
