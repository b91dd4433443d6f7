package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"jobd/journal"
	"jobd/journal/archive"
)

// fileName is the index in the journal's folder.
const fileName = "index.db"

// version is the file's user_version: one of another version is made anew.
const version = 3

// state is what a job is, as rows have it: its status, and of one that is done its result.
type state int

// The states.
const (
	accepted state = iota + 1
	starting
	running
	succeeded
	failed
	ignored
	released
	retried
	planned
	conflict
)

var statuses = map[state]journal.Status{
	accepted: journal.StatusAccepted, starting: journal.StatusStarting, running: journal.StatusRunning,
	succeeded: journal.StatusDone, failed: journal.StatusDone, ignored: journal.StatusIgnored,
	released: journal.StatusReleased, retried: journal.StatusRetried, planned: journal.StatusPlanned, conflict: journal.StatusConflict,
}

// stateOf is the state of a job.
func stateOf(status journal.Status, result string) state {
	for s := accepted; s <= conflict; s++ {
		if statuses[s] == status && (status != journal.StatusDone || (s == failed) == (result == "fail")) {
			return s
		}
	}
	return 0
}

// schema: the indexes end with seq, as every index of a table whose key that is.
const schema = `
CREATE TABLE noted (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  seq   INTEGER NOT NULL, -- the newest event that is in
  hash  BLOB    NOT NULL, -- its hash
  begun INTEGER NOT NULL, -- the event before the first one that went in
  built INTEGER NOT NULL, -- it was up to the journal's end once
  gone  INTEGER NOT NULL, -- the newest event that retention has removed
  swept INTEGER NOT NULL  -- up to which rows were removed for that
) STRICT;
CREATE TABLE jobs (
  seq      INTEGER PRIMARY KEY, -- of the event by which it became what it is
  id       INTEGER NOT NULL UNIQUE,
  target   TEXT    NOT NULL,
  state    INTEGER NOT NULL,
  at       INTEGER NOT NULL,    -- of that event; it and the other times in microseconds, 0: unknown
  manual   INTEGER NOT NULL,
  attempt  INTEGER NOT NULL,
  executor TEXT    NOT NULL,
  claimed  INTEGER NOT NULL,
  started  INTEGER NOT NULL,
  ended    INTEGER NOT NULL,
  code     INTEGER,
  signal   TEXT    NOT NULL,
  reason   TEXT    NOT NULL,
  cpu      INTEGER NOT NULL,    -- microseconds of processors that it used; 0: nobody knows
  memory   INTEGER NOT NULL,    -- bytes that a process of it had at most; 0: nobody knows
  job      TEXT                 -- of one under way: the fold's, as a checkpoint has it
) STRICT;
CREATE INDEX jobs_target ON jobs (target, state);
CREATE INDEX jobs_state ON jobs (state);
CREATE INDEX jobs_code ON jobs (code) WHERE code > 0;
CREATE TABLE failures ( -- of each job its newest end, where that is a failure, whatever came after it
  seq     INTEGER PRIMARY KEY, -- of that event
  id      INTEGER NOT NULL UNIQUE,
  target  TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  failure TEXT    NOT NULL     -- the end, and the last line of stderr
) STRICT;
CREATE INDEX failures_target ON failures (target);
CREATE VIRTUAL TABLE words USING fts5 (text, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');
CREATE TABLE rates (
  width   INTEGER NOT NULL, -- seconds of a step
  target  TEXT    NOT NULL, -- '': of all
  step    INTEGER NOT NULL, -- when it begins, in seconds since 1970
  started INTEGER NOT NULL,
  ended   INTEGER NOT NULL,
  failed  INTEGER NOT NULL,
  PRIMARY KEY (width, target, step)
) STRICT, WITHOUT ROWID;
INSERT INTO noted VALUES (1, 0, x'', 0, 0, 0, 0);
PRAGMA user_version = 3;
`

// pool opens the file. Its log is taken over every 16 MiB, which is when it is synced.
func pool(path, mode string, connections int) *sql.DB {
	query := url.Values{
		"mode": {mode}, "_txlock": {"immediate"},
		"_pragma": {"busy_timeout(2000)", "journal_mode(WAL)", "synchronous(NORMAL)", "temp_store(MEMORY)", "cache_size(-1024)", "wal_autocheckpoint(4096)"},
	}
	if mode == "ro" {
		query["_pragma"] = []string{"busy_timeout(2000)", "query_only(1)", "temp_store(MEMORY)", "cache_size(-1024)"}
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}).String())
	if err != nil {
		panic("index: the SQLite driver is not linked: " + err.Error())
	}
	db.SetMaxOpenConns(connections)
	return db
}

// noted is what the file says of itself.
type noted struct {
	seq, begun, gone, swept uint64
	hash                    []byte
	built                   bool
}

// errUnfit says that a file is no index of this journal, or none that this version reads.
var errUnfit = errors.New("it is not this journal's index")

// open opens the file for writing, and makes it where there is none; what is wrong with one that is there is an
// error.
func open(ctx context.Context, path string) (db *sql.DB, n noted, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	isNew := err == nil
	if isNew {
		err = f.Close()
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return nil, n, err
	}
	db = pool(path, "rw", 1)
	var written int
	err = db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&written)
	switch {
	case err != nil:
	case isNew || written == 0: // a start that was killed here may have left an empty file
		_, err = db.ExecContext(ctx, `BEGIN;`+schema+`COMMIT`)
	case written != version:
		err = fmt.Errorf("%w: its version is %d, not %d", errUnfit, written, version)
	}
	if err == nil {
		err = db.QueryRowContext(ctx, `SELECT seq, hash, begun, built, gone, swept FROM noted`).Scan(&n.seq, &n.hash, &n.begun, &n.built, &n.gone, &n.swept)
	}
	if err != nil {
		return nil, n, errors.Join(err, db.Close())
	}
	return db, n, nil
}

// Remove removes the index of a journal's folder, where there is one.
func Remove(dir string) error { return archive.RemoveDatabase(filepath.Join(dir, fileName)) }
