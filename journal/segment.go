package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the database driver
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

const insertEvent = `INSERT INTO events (seq, time, job, kind, payload, stdout, stderr, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

const eventColumns = `seq, time, job, kind, payload, stdout, stderr, hash`

// segment is one database of events, open for writing by its one writer.
// Reads go through a small pool of their own, so that they never wait for it.
type segment struct {
	write  *sql.DB
	read   *sql.DB
	insert *sql.Stmt
}

// openSegment opens the database of the journal in dir for writing and makes
// it where it is missing.
func openSegment(ctx context.Context, dir string) (*segment, error) {
	path := filepath.Join(dir, segmentFile)
	if err := touch(path); err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	s := &segment{write: openDatabase(path, "rwc"), read: openDatabase(path, "ro")}
	s.write.SetMaxOpenConns(1)
	s.read.SetMaxOpenConns(2)
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal %s: %w", path, err), s.close())
	}
	return s, nil
}

// touch makes the database file with the journal's permissions; SQLite gives its
// write-ahead log the same ones.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// openDatabase gives a pool whose every connection has the journal's settings:
// pragmas sent by Exec would reach one connection only (pitfall 18).
func openDatabase(path, mode string) *sql.DB {
	query := url.Values{"mode": {mode}, "_pragma": {"busy_timeout(2000)"}}
	if mode == "ro" {
		query.Add("_pragma", "query_only(1)")
	} else {
		query.Add("_pragma", "journal_mode(WAL)")
		query.Add("_pragma", "synchronous(FULL)")
		query.Add("_txlock", "immediate")
	}
	return openURI(path, query)
}

func openURI(path string, query url.Values) *sql.DB {
	uri := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		panic("journal: the SQLite driver is not linked: " + err.Error())
	}
	return db
}

// prepare makes the tables where they are missing and readies the statements.
func (s *segment) prepare(ctx context.Context) error {
	var version int
	if err := s.write.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return damaged(err)
	}
	switch {
	case version == 0:
		if err := s.create(ctx); err != nil {
			return err
		}
	case version > schemaVersion:
		return fmt.Errorf("version %d was written by a newer jobd; this one knows version %d", version, schemaVersion)
	}
	var err error
	s.insert, err = s.write.PrepareContext(ctx, insertEvent)
	return damaged(err)
}

func (s *segment) create(ctx context.Context) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return damaged(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	return tx.Commit()
}

// append writes records, and the mirror's position unless it is 0, in one transaction
// that is durable when append returns.
func (s *segment) append(records []record, position uint64) error {
	tx, err := s.write.Begin()
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

// position is the newest event that the jobs table shows.
func position(ctx context.Context, db *sql.DB) (uint64, error) {
	var seq int64
	err := db.QueryRowContext(ctx, `SELECT seq FROM mirror`).Scan(&seq)
	return uint64(seq), damaged(err)
}

// checkpoint moves the write-ahead log into the database and empties it.
func (s *segment) checkpoint(ctx context.Context) error {
	_, err := s.write.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}

func (s *segment) close() error {
	var errs []error
	if s.insert != nil {
		errs = append(errs, s.insert.Close())
	}
	// The reader goes first: the last connection to close empties the
	// write-ahead log, and a reader may not.
	return errors.Join(append(errs, s.read.Close(), s.write.Close())...)
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
