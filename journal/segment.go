package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// segmentFile is the database that holds the events.
const segmentFile = "segment-00000001.db"

// schemaVersion is kept in the database's user_version; a journal of a newer
// version is refused.
const schemaVersion = 1

// schema makes an events table that cannot be changed by an ordinary statement:
// rows are only added, each with the next sequence number.
const schema = `
CREATE TABLE events (
  seq     INTEGER PRIMARY KEY,
  time    INTEGER NOT NULL, -- microseconds since 1970, UTC
  job     INTEGER NOT NULL, -- 0: the worker itself
  kind    TEXT    NOT NULL,
  payload TEXT    NOT NULL, -- JSON
  stdout  BLOB,
  stderr  BLOB,
  hash    BLOB    NOT NULL  -- SHA-256 over the hash before it and this event
) STRICT;
CREATE INDEX events_job ON events (job, seq) WHERE job <> 0;
CREATE TRIGGER events_only_next BEFORE INSERT ON events
WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM events)
BEGIN SELECT raise(ABORT, 'the journal is append-only: not the next sequence number'); END;
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
BEGIN SELECT raise(ABORT, 'the journal is append-only: events are never updated'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
BEGIN SELECT raise(ABORT, 'the journal is append-only: events are never deleted'); END;
CREATE TABLE mirror (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  seq INTEGER NOT NULL      -- the newest event that the jobs table shows
) STRICT;
INSERT INTO mirror VALUES (1, 0);
PRAGMA user_version = 1;
`

// schemaObjects is how many tables, indexes and triggers schema makes.
const schemaObjects = 6

// examineSchema gives the version, how many objects there are, and how many of ours.
const examineSchema = `SELECT (SELECT user_version FROM pragma_user_version), count(*), coalesce(sum(name IN (
  'events', 'events_job', 'events_only_next', 'events_no_update', 'events_no_delete', 'mirror')), 0) FROM sqlite_schema`

const insertEvent = `INSERT INTO events (seq, time, job, kind, payload, stdout, stderr, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

const eventColumns = `seq, time, job, kind, payload, stdout, stderr, hash`

// segment is one database of events, open for writing by its one writer.
type segment struct {
	path   string
	db     *sql.DB
	insert *sql.Stmt
}

// makeSegment makes the database of a new journal. It may die at any point and be called again.
func makeSegment(ctx context.Context, dir string) error {
	path := filepath.Join(dir, segmentFile)
	// SQLite gives the write-ahead log the permissions of the database. An existing file is left
	// alone: closing it would drop the locks that this process may hold on it (pitfall 26).
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make journal: %w", err)
	}
	db := openForWriting(path)
	if err := errors.Join(create(ctx, db), db.Close(), syncFolder(dir)); err != nil {
		return fmt.Errorf("make journal %s: %w", path, err)
	}
	return nil
}

func create(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return damaged(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	return tx.Commit()
}

// openSegment opens the database in dir, which was examined, for writing.
func openSegment(ctx context.Context, dir string) (*segment, error) {
	path := filepath.Join(dir, segmentFile)
	s := &segment{path: path, db: openForWriting(path)}
	var err error
	if s.insert, err = s.db.PrepareContext(ctx, insertEvent); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, damaged(err)), s.db.Close())
	}
	return s, nil
}

// append implements disk.
func (s *segment) append(records []record, position uint64) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert := tx.Stmt(s.insert)
	for _, r := range records {
		_, err := insert.Exec(int64(r.seq), r.micros, r.job, string(r.kind), string(r.payload), r.stdout, r.stderr, r.hash[:])
		if err != nil {
			return fmt.Errorf("event %d: %w", r.seq, err)
		}
	}
	if position > 0 {
		if _, err := tx.Exec(`UPDATE mirror SET seq = ?`, int64(position)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// checkpoint implements disk. Where a reader is in the way the log stays as it is.
func (s *segment) checkpoint(bound int64) error {
	info, err := os.Stat(s.path + "-wal")
	if err != nil || info.Size() <= bound {
		return err
	}
	_, err = s.db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

// close implements disk.
func (s *segment) close() error {
	return errors.Join(s.insert.Close(), s.db.Close())
}

// scanRecord reads one row of eventColumns.
func scanRecord(rows *sql.Rows) (record, error) {
	var r record
	var seq int64
	var kind string
	var payload, hash sql.RawBytes
	if err := rows.Scan(&seq, &r.micros, &r.job, &kind, &payload, &r.stdout, &r.stderr, &hash); err != nil {
		return record{}, damaged(err)
	}
	if len(hash) != len(r.hash) {
		return record{}, &DamagedError{Seq: uint64(seq), Detail: fmt.Sprintf("its hash has %d bytes", len(hash))}
	}
	r.seq, r.kind, r.payload = uint64(seq), Kind(kind), append([]byte(nil), payload...)
	copy(r.hash[:], hash)
	return r, nil
}
