package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	_ "modernc.org/sqlite" // the database driver
)

// openForWriting gives the writer's pool, of one connection. Settings go with the address, so
// that every connection has them: pragmas sent by Exec would reach one only (pitfall 18).
func openForWriting(path string) *sql.DB {
	db := openDatabase(path, url.Values{
		"mode":    {"rw"},
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(2000)", "journal_mode(WAL)", "synchronous(FULL)"},
	})
	db.SetMaxOpenConns(1)
	return db
}

// openForReading gives a pool that reads beside a writer.
func openForReading(path string) *sql.DB {
	db := openDatabase(path, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(2000)", "query_only(1)"}})
	db.SetMaxOpenConns(2)
	return db
}

// openResting gives a pool for a database that has no write-ahead log and that nobody changes.
func openResting(path string) *sql.DB {
	return openDatabase(path, url.Values{"mode": {"ro"}, "immutable": {"1"}})
}

func openDatabase(path string, query url.Values) *sql.DB {
	uri := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		panic("journal: the SQLite driver is not linked: " + err.Error())
	}
	return db
}

// read runs a query, maybe twice. A database without a write-ahead log is read as a file
// that nobody changes: SQLite would make a log otherwise, which a reader may not,
// or cannot. If a worker turned up meanwhile, what was read is void, and is read
// again beside it.
func (r *Reader) read(query func(*sql.DB) error) error {
	before, resting, err := r.look()
	if err != nil {
		return err
	}
	if resting {
		db := openResting(r.path)
		err := errors.Join(query(db), db.Close())
		after, resting, statErr := r.look()
		if statErr != nil {
			return statErr
		}
		if resting && after == before {
			return err
		}
	}
	return query(r.beside)
}

// appearance tells whether a database file has been written to.
type appearance struct {
	size    int64
	changed time.Time
}

// look looks at the database from outside; resting means that it has no write-ahead log.
func (r *Reader) look() (a appearance, resting bool, err error) {
	info, err := os.Stat(r.path)
	if err != nil {
		return a, false, err
	}
	_, err = os.Stat(r.path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return appearance{info.Size(), info.ModTime()}, true, nil
	}
	return a, false, err
}

// errNone says that a folder holds no journal, or one that was never written to.
var errNone = errors.New("there is no journal in this folder")

// examine looks whether there is a journal that this version can read, with all that
// belongs to it.
func (r *Reader) examine(ctx context.Context) error {
	var version, objects, ours int
	err := r.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, examineSchema).Scan(&version, &objects, &ours)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && version == 0 && objects == 0:
		return r.none()
	case err != nil:
		return damaged(err)
	case version > schemaVersion:
		return fmt.Errorf("version %d was written by a newer jobd; this one knows version %d", version, schemaVersion)
	case version != schemaVersion:
		return &DamagedError{Detail: fmt.Sprintf("it claims to be of version %d", version)}
	case ours != schemaObjects:
		return &DamagedError{Detail: fmt.Sprintf("%d of the %d tables, indexes and triggers that it was made with are there", ours, schemaObjects)}
	}
	return nil
}

// none is the error where there is no database, or an empty one.
func (r *Reader) none() error {
	head, err := readHead(r.dir)
	if err != nil {
		return err
	}
	if head.seq > 0 {
		return &DamagedError{Seq: 1, Detail: fmt.Sprintf("events up to %d were acknowledged, the database is gone or empty", head.seq)}
	}
	return fmt.Errorf("%w (no events in a file %s)", errNone, segmentFile)
}
