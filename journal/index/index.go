package index

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
)

// Log is the journal that is followed: an eventlog.Log.
type Log interface {
	Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error)
	View(look func(*journal.State))
}

// Config is what an index is made of.
type Config struct {
	Dir    string // the journal's folder
	Log    Log
	Room   func() error // why nothing may be written there now; nil: it always may
	Logger *slog.Logger

	begin, linger, pause time.Duration           // tests hurry
	fault                func(step string) error // tests have steps fail
}

// The pace of an index.
const (
	begin       = time.Minute            // after the start, unless somebody asks: a worker that starts has other work
	batchEvents = 1024                   // in one transaction
	linger      = 250 * time.Millisecond // from a batch that was up to the journal's end to the next
	pause       = time.Minute            // from a failure to the next try
	restful     = 4                      // for how many times as long as it works it rests, so that it takes a fifth of a core
	sweepEvents = 20_000                 // how far one transaction removes what retention has removed
)

// Index is the index beside one journal. Its methods are safe for concurrent use.
type Index struct {
	config Config
	path   string

	wanted, opened chan struct{} // closed when somebody asks first, and when there is a file first
	want, open     sync.Once

	search chan struct{} // has one while somebody searches, and for a while after: see rested

	mu      sync.RWMutex
	readers *sql.DB // nil: there is no file yet
	spoil   context.CancelCauseFunc
	noted   noted
	stopped string // why it does not go on
}

// New makes an index, which does nothing until Run.
func New(c Config) *Index {
	if c.linger == 0 {
		c.begin, c.linger, c.pause = begin, linger, pause
	}
	if c.Room == nil {
		c.Room = func() error { return nil }
	}
	if c.fault == nil {
		c.fault = func(string) error { return nil }
	}
	return &Index{config: c, path: filepath.Join(c.Dir, fileName), wanted: make(chan struct{}), opened: make(chan struct{}), search: make(chan struct{}, 1)}
}

// Standing is how far an index is.
type Standing struct {
	Lag      uint64        // events of the journal that are not in it
	Behind   time.Duration // how long ago the first of them was appended
	Building int           // per cent, where it is made; 100: it is there
	Stopped  string        // why it does not go on; "": it does
}

// Standing tells how far the index is.
func (x *Index) Standing(ctx context.Context) (s Standing) {
	x.mu.RLock()
	n, stopped := x.noted, x.stopped
	x.mu.RUnlock()
	newest := x.newest()
	s.Stopped, s.Building = stopped, 100
	if newest <= n.seq {
		return s
	}
	s.Lag = newest - n.seq
	if !n.built {
		s.Building = int(100 * (n.seq - n.begun) / max(newest-n.begun, 1))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if events, err := x.config.Log.Next(ctx, n.seq, 1); err == nil {
		s.Behind = max(time.Since(events[0].Time), 0)
	}
	return s
}

func (x *Index) newest() (seq uint64) {
	x.config.Log.View(func(s *journal.State) { seq = s.Seq })
	return seq
}

// Run follows the journal until ctx ends or the journal is closed. What fails is told once, and tried again: an
// index never ends a worker.
func (x *Index) Run(ctx context.Context) error {
	select {
	case <-x.wanted:
	case <-time.After(x.config.begin):
	case <-ctx.Done():
		return nil
	}
	told, made := "", time.Time{}
	for {
		err := x.follow(ctx)
		if ctx.Err() != nil || errors.Is(err, journal.ErrClosed) {
			return nil
		}
		anew := archive.IsDamage(err) || errors.Is(err, errUnfit)
		if text := err.Error(); text != told {
			told = text
			if anew {
				x.config.Logger.Warn("the index of jobs is made anew from the journal", "file", x.path, "why", err)
			} else {
				x.config.Logger.Warn("the index of jobs stops, and is tried again each minute; jobs go on", "file", x.path, "error", err)
			}
		}
		x.stop(err, anew)
		if anew && time.Since(made) > x.config.pause { // else it was made a moment ago, and is unfit again
			made = time.Now()
			continue
		}
		select {
		case <-time.After(x.config.pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// stop notes why the index does not go on. One that is to be made anew is removed.
func (x *Index) stop(err error, anew bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if anew {
		x.noted = noted{}
		err = errors.Join(err, archive.RemoveDatabase(x.path))
	}
	x.stopped = err.Error()
}

// follow opens the file and brings it up to date with the journal, until something fails.
func (x *Index) follow(ctx context.Context) (err error) {
	if err := x.config.Room(); err != nil {
		return err
	}
	ctx, spoil := context.WithCancelCause(ctx)
	defer spoil(nil)
	db, n, err := open(ctx, x.path)
	if err != nil {
		return err
	}
	w := &writer{Index: x, db: db, noted: n}
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.readers != nil {
			_ = x.readers.Close()
			x.readers = nil
		}
		_ = w.close()
	}()
	if err := w.begin(ctx); err != nil {
		return cause(ctx, err)
	}
	x.mu.Lock()
	x.readers, x.spoil = pool(x.path, "ro", 2), spoil
	x.mu.Unlock()
	x.open.Do(func() { close(x.opened) })
	for {
		level := w.seq >= x.newest()
		x.publish(w.noted, level)
		if level {
			if err := x.config.fault("level"); err != nil {
				return err
			}
		}
		worked := time.Now()
		events, err := x.config.Log.Next(ctx, w.seq, batchEvents)
		if err == nil {
			err = x.config.Room()
		}
		if level { // it has waited
			worked = time.Now()
		}
		if err == nil {
			err = w.add(ctx, events)
		}
		if err == nil {
			err = w.sweep(ctx)
		}
		if err != nil {
			return cause(ctx, err)
		}
		rest := restful * time.Since(worked)
		if w.seq >= x.newest() && w.swept >= w.gone {
			rest = max(rest, x.config.linger)
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// publish tells how far the file is, and that it goes on: it has more than before, or all.
func (x *Index) publish(n noted, level bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if level || n.seq > x.noted.seq {
		x.stopped = ""
	}
	x.noted = n
}

// cause is why something failed: for what a reader has met, where that has ended it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// oldest gives the number of the oldest event that is kept, and the jobs that were under way before it.
func (x *Index) oldest(ctx context.Context) (first uint64, jobs []journal.Job, err error) {
	r, err := replay.Open(x.config.Dir)
	for err == nil {
		var again uint64
		if first, err = r.First(ctx); err == nil {
			jobs, err = r.UnderWay(ctx, time.Time{})
		}
		if err == nil {
			again, err = r.First(ctx)
		}
		if err == nil && again == first { // nothing was removed meanwhile
			return first, jobs, nil
		}
	}
	return 0, nil, err
}

// check compares what the file notes with the journal.
func (x *Index) check(ctx context.Context, n noted, first uint64) error {
	switch newest := x.newest(); {
	case n.seq > newest:
		return fmt.Errorf("%w: it has event %d, and the journal ends with %d", errUnfit, n.seq, newest)
	case n.seq < first:
		return fmt.Errorf("%w: it ends with event %d, and the journal is kept from %d on", errUnfit, n.seq, first)
	}
	events, err := x.config.Log.Next(ctx, n.seq-1, 1)
	if err == nil && !bytes.Equal(events[0].Hash[:], n.hash) {
		err = fmt.Errorf("%w: its event %d is another one", errUnfit, n.seq)
	}
	return err
}

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
