package segment

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	_ "modernc.org/sqlite"

	"jobd/journal"
)

// the database driver

// OpenForWriting gives the writer's pool, of one connection. Settings go with the address, so
// that every connection has them: pragmas sent by Exec would reach one only.
func OpenForWriting(path string) *sql.DB {
	db := openDatabase(path, url.Values{
		"mode":    {"rw"},
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(2000)", "journal_mode(WAL)", "synchronous(FULL)", "temp_store(MEMORY)"},
	})
	db.SetMaxOpenConns(1)
	return db
}

// openForReading gives a pool that reads beside a writer.
func openForReading(path string) *sql.DB {
	return openDatabase(path, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(2000)", "query_only(1)"}})
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

// Database is a segment that is not sealed, open for reading. It implements source. It connects
// when it is first used, and is for one goroutine at a time.
type Database struct {
	pace
	path    string
	decoder *zstd.Decoder
	db      *sql.DB // nil: not connected
	seen    appearance
	passes  int // how often damage was passed over
}

// ReadDatabase gives a database for reading, which is opened when it is first used. After each page
// it rests for so many times as long as reading that took.
func ReadDatabase(path string, decoder *zstd.Decoder, rests int) *Database {
	return &Database{pace: pace{rests: rests}, path: path, decoder: decoder}
}

// appearance reports whether a database file has been written to.
type appearance struct {
	resting bool // it has no write-ahead log; what follows is not looked at otherwise
	size    int64
	changed time.Time
}

// read runs a query, maybe again. A database without a write-ahead log is read as a file
// that nobody changes: SQLite would make a log otherwise, which a reader may not,
// or cannot. If a worker came or went meanwhile, what was read is void, and is read
// again; the second time beside the worker, who may be gone again.
func (d *Database) read(query func(*sql.DB) error) error {
	for again := false; ; again = true {
		before, err := d.look()
		if err != nil {
			return err
		}
		if again {
			before = appearance{}
		}
		if err = d.connect(before); err == nil {
			err = query(d.db)
		}
		after, lookErr := d.look()
		switch {
		case lookErr != nil: // it was sealed or removed
			return lookErr
		case again, after == before, !before.resting && err == nil:
			return err
		}
	}
}

// look looks at the database from outside.
func (d *Database) look() (appearance, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return appearance{}, err
	}
	if _, err = os.Stat(d.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return appearance{true, info.Size(), info.ModTime()}, nil
	}
	return appearance{}, err
}

// connect makes a connection that suits the appearance.
func (d *Database) connect(a appearance) error {
	if d.db != nil && d.seen == a {
		return nil
	}
	err := d.Close()
	if d.seen = a; a.resting {
		d.db = openResting(d.path)
	} else {
		d.db = openForReading(d.path)
	}
	d.db.SetMaxOpenConns(1)
	return err
}

// Close implements source.
func (d *Database) Close() error {
	if d.db == nil {
		return nil
	}
	db := d.db
	d.db = nil
	return db.Close()
}

// End implements source.
func (d *Database) End(ctx context.Context) (seq uint64, hash journal.Hash, err error) {
	var stored []byte
	err = d.read(func(db *sql.DB) error {
		err := db.QueryRowContext(ctx, `SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1`).Scan(&seq, &stored)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	copy(hash[:], stored)
	return seq, hash, Damaged(err)
}

// FirstAt implements source: by bisection, since time grows with the sequence number.
func (d *Database) FirstAt(ctx context.Context, micros int64) (uint64, error) {
	var first, last sql.NullInt64
	err := d.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT min(seq), max(seq) FROM records`).Scan(&first, &last)
	})
	if err == nil && !first.Valid {
		return 0, nil // there is no event yet
	}
	low, high := uint64(first.Int64), uint64(last.Int64)+1
	for err == nil && low < high {
		middle := low + (high-low)/2
		var then int64
		err = d.read(func(db *sql.DB) error {
			return db.QueryRowContext(ctx, `SELECT time FROM records WHERE seq = ?`, int64(middle)).Scan(&then)
		})
		if errors.Is(err, sql.ErrNoRows) {
			return 0, &journal.DamagedError{Seq: middle, Detail: "it is missing"}
		}
		if then < micros {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, Damaged(err)
}

// CheckRest implements source. It lets SQLite compare the index with the table: events that the
// index does not know would be missing from a job's history. It is one statement, so a worker's
// write-ahead log grows while it runs.
func (d *Database) CheckRest(ctx context.Context, _ []JobBlock) error {
	var verdict string
	err := d.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&verdict)
	})
	if err != nil {
		return Damaged(err)
	}
	if verdict != "ok" {
		return &journal.DamagedError{Detail: verdict}
	}
	return nil
}

// Notes is what the newest segment keeps beside the events. It is for the journal's own use and not
// chained.
type Notes struct {
	Position uint64 // the newest event that the jobs table is known to show
	Kept     int    // the oldest segment that retention has left; those before it were removed or archived
}

func (d *Database) Notes(ctx context.Context) (n Notes, err error) {
	var position int64
	err = d.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT seq, kept FROM mirror`).Scan(&position, &n.Kept)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return n, &journal.DamagedError{Detail: "the mirror's position is missing"}
	}
	n.Position = uint64(position)
	return n, Damaged(err)
}

// Bounds implements source.
func (d *Database) Bounds() (Bounds, bool) { return Bounds{}, false }

// Name implements source.
func (d *Database) Name() string { return filepath.Base(d.path) }

// Header implements source.
func (d *Database) Header(ctx context.Context) (Header, error) {
	var content []byte
	err := d.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT header FROM segment`).Scan(&content)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return Header{}, &journal.DamagedError{Detail: "a segment's header is missing"}
	}
	if err != nil {
		return Header{}, Damaged(err)
	}
	return parseHeader(content)
}
