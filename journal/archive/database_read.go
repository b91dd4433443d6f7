package archive

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite"

	"jobd/journal"
)

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

func openDatabase(path string, query url.Values) *sql.DB {
	uri := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		panic("journal: the SQLite driver is not linked: " + err.Error())
	}
	return db
}

// database is a segment that is not sealed, open for reading. It implements source. It connects
// when it is first used, and is for one goroutine at a time.
type database struct {
	path string
	kept *kept   // nil: it has nothing
	db   *sql.DB // nil: not connected
	lent bool    // it is kept for others
	seen appearance
}

// appearance reports whether a database file has been written to.
type appearance struct {
	resting bool // it has no write-ahead log; what follows is not looked at otherwise
	size    int64
	changed time.Time
}

// read runs a query, maybe again. A database without a write-ahead log is read as a file that nobody
// changes: SQLite would make a log otherwise, which a reader may not, or cannot. If a worker came or
// went meanwhile, what was read is void, and is read again; the second time beside the worker, which
// may be gone again.
func (d *database) read(query func(*sql.DB) error) error {
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
func (d *database) look() (appearance, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return appearance{}, err
	}
	if _, err = os.Stat(d.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return appearance{true, info.Size(), info.ModTime()}, nil
	}
	return appearance{}, err
}

// connect makes a connection that suits the appearance: one that reads beside a writer, or for a
// database that has no write-ahead log and that nobody changes.
func (d *database) connect(a appearance) error {
	if d.db != nil && d.seen == a {
		return nil
	}
	err := d.Close()
	d.seen = a
	if a.resting {
		d.db = openDatabase(d.path, url.Values{"mode": {"ro"}, "immutable": {"1"}})
		d.db.SetMaxOpenConns(1)
		return err
	}
	beside := func() *sql.DB {
		return openDatabase(d.path, url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(2000)", "query_only(1)"}})
	}
	if d.kept != nil {
		d.db = d.kept.connect(d.path, beside)
	}
	if d.lent = d.db != nil; !d.lent {
		d.db = beside()
		d.db.SetMaxOpenConns(1)
	}
	return err
}

// row reads the columns of one row; none says what is damaged where there is no row.
func (d *database) row(ctx context.Context, none, query string, columns ...any) error {
	err := d.read(func(db *sql.DB) error { return db.QueryRowContext(ctx, query).Scan(columns...) })
	if errors.Is(err, sql.ErrNoRows) {
		return &journal.DamagedError{Detail: none}
	}
	return Damaged(err)
}

// Close implements source.
func (d *database) Close() error {
	if d.db == nil {
		return nil
	}
	db := d.db
	if d.db = nil; d.lent {
		d.lent = false
		return nil
	}
	return db.Close()
}

// End implements source.
func (d *database) End(ctx context.Context) (seq uint64, hash journal.Hash, err error) {
	var stored []byte
	err = d.row(ctx, "", `SELECT coalesce(seq, 0), hash FROM (SELECT 1) LEFT JOIN
		(SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1)`, &seq, &stored)
	copy(hash[:], stored)
	return seq, hash, err
}

// CheckRest implements source. It lets SQLite compare the index with the table: events that the
// index does not know would be missing from a job's history. It is one statement, so a worker's
// write-ahead log grows while it runs.
func (d *database) CheckRest(ctx context.Context, _ []JobBlock) error {
	var verdict string
	err := d.row(ctx, "", `PRAGMA integrity_check(1)`, &verdict)
	if err == nil && verdict != "ok" {
		err = &journal.DamagedError{Detail: verdict}
	}
	return err
}

// position is the newest event that the jobs table is known to show. It is not chained.
func (d *database) position(ctx context.Context) (uint64, error) {
	var position int64
	err := d.row(ctx, "the mirror's position is missing", `SELECT seq FROM mirror`, &position)
	if err == nil && position < 0 {
		position, err = 0, &journal.DamagedError{Detail: fmt.Sprintf("the mirror's position is %d", position)}
	}
	return uint64(position), err
}

// Bounds implements source.
func (d *database) Bounds() (Bounds, bool) { return Bounds{}, false }

// Name implements source.
func (d *database) Name() string { return filepath.Base(d.path) }

// Header implements source.
func (d *database) Header(ctx context.Context) (Header, error) {
	var content []byte
	if err := d.row(ctx, "a segment's header is missing", `SELECT header FROM segment`, &content); err != nil {
		return Header{}, err
	}
	return parseHeader(content)
}

// pageSize is how many events one statement reads: a statement that runs for
// long would keep the write-ahead log from being emptied.
const pageSize = 2000

// maxPageBytes bounds the payloads and the output that a page holds in memory.
const maxPageBytes = 4 << 20

// Records implements source. Each page is a statement of its own.
func (d *database) Records(ctx context.Context, sel Selection) iter.Seq2[[]Record, error] {
	return func(yield func([]Record, error) bool) {
		after := int64(math.MinInt64) // so that a number that cannot be is met as well
		if sel.After > 0 {
			after = int64(sel.After)
		}
		for more := true; more; {
			var page []Record
			err := d.read(func(db *sql.DB) (err error) {
				page, more, err = d.page(ctx, db, sel, after, pageSize)
				return err
			})
			if len(page) > 0 {
				after = int64(page[len(page)-1].Seq)
			}
			if (len(page) > 0 || err != nil) && !yield(page, Damaged(err)) || err != nil {
				return
			}
		}
	}
}

// page reads records behind a sequence number, fewer than a page where they are large, and tells
// whether there may be more. It goes past database/sql, which costs as much as SQLite itself.
func (d *database) page(ctx context.Context, db *sql.DB, sel Selection, after int64, limit int) (page []Record, more bool, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	text, args := sel.sql(after, limit)
	err = conn.Raw(func(raw any) error {
		rows, err := raw.(driver.QueryerContext).QueryContext(ctx, text, args)
		if err != nil {
			return err
		}
		page, more, err = d.scan(rows, limit)
		return errors.Join(err, rows.Close())
	})
	return page, more, err
}

// sql is the selection as a statement that gives one page.
func (s *Selection) sql(after int64, limit int) (string, []driver.NamedValue) {
	var args []driver.NamedValue
	add := func(value driver.Value) { args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: value}) }
	output := `NULL, NULL`
	if s.Output {
		output = `stdout, stderr`
	}
	text := `SELECT seq, time, job, kind, CAST(payload AS BLOB), ` + output + `, hash FROM records WHERE seq > ?`
	if add(after); s.End > 0 {
		text += ` AND seq < ?`
		add(int64(s.End))
	}
	if s.Job != 0 {
		text += ` AND job = ? AND job <> 0`
		add(s.Job)
	}
	if len(s.Kinds) > 0 {
		text += ` AND kind IN (?` + strings.Repeat(`, ?`, len(s.Kinds)-1) + `)`
		for _, kind := range s.Kinds {
			add(string(kind))
		}
	}
	add(int64(limit))
	return text + ` ORDER BY seq LIMIT ?`, args
}

// scan reads rows into a page.
func (d *database) scan(rows driver.Rows, limit int) (page []Record, more bool, err error) {
	values := make([]driver.Value, 8)
	for size := 0; ; {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return page, len(page) == limit, nil
		} else if err != nil {
			return page, false, err
		}
		r := d.record(values)
		page = append(page, r)
		if size += r.size(); size > maxPageBytes {
			return page, true, nil
		}
	}
}

// record takes a row's values apart. What is not of its column's type is left out, and what can't
// be decompressed stays as it is: the hash does not match then. Blobs are the driver's copies, so
// they may be kept.
func (d *database) record(values []driver.Value) (r Record) {
	seq, _ := values[0].(int64)
	r.Seq = uint64(seq)
	r.Micros, _ = values[1].(int64)
	r.Job, _ = values[2].(int64)
	kind, _ := values[3].(string)
	r.Kind = journal.Kind(kind)
	r.Payload, _ = values[4].([]byte)
	stdout, _ := values[5].([]byte)
	stderr, _ := values[6].([]byte)
	r.Stdout, r.Stderr = some(unpack(stdout)), some(unpack(stderr))
	hash, _ := values[7].([]byte)
	copy(r.Hash[:], hash)
	return r
}
