package journal

import (
	"context"
	"database/sql"
	"iter"
	"math"
)

// pageSize is how many events one statement reads: a statement that runs for
// long would keep the write-ahead log from being emptied (pitfall 25).
const pageSize = 2000

// query selects events, oldest first.
type query struct {
	where         string // a condition, "" for all
	args          []any
	limit         int  // 0: no limit
	withoutOutput bool // leaves stdout and stderr on the disk; the hash can't be checked then
}

func (q query) columns() string {
	if q.withoutOutput {
		return `seq, time, job, kind, payload, NULL, NULL, hash`
	}
	return eventColumns
}

// events reads events page by page. It ends at the first error.
func (r *Reader) events(ctx context.Context, q query) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for record, err := range r.records(ctx, q) {
			var e Event
			if err == nil {
				e, err = record.decode()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// records is events before the payloads are decoded.
func (r *Reader) records(ctx context.Context, q query) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		last := int64(math.MinInt64) // so that a number that cannot be is met as well
		for left := q.limit; ; {
			size := pageSize
			if q.limit > 0 {
				size = min(size, left)
			}
			page, more, err := r.page(ctx, q, last, size)
			for _, record := range page {
				if !yield(record, nil) {
					return
				}
				last = int64(record.seq)
			}
			if err != nil {
				yield(record{}, err)
				return
			}
			if left -= len(page); !more || q.limit > 0 && left <= 0 {
				return
			}
		}
	}
}

// maxPageBytes bounds the payloads and the output that a page holds in memory.
const maxPageBytes = 4 << 20

// page reads up to size records behind seq, fewer where they are large, and tells
// whether there may be more. Records before an error come with it.
func (r *Reader) page(ctx context.Context, q query, after int64, size int) (page []record, more bool, err error) {
	err = r.read(func(db *sql.DB) error {
		page, more, err = readPage(ctx, db, q, after, size)
		return err
	})
	return page, more, err
}

func readPage(ctx context.Context, db *sql.DB, q query, after int64, size int) (page []record, more bool, err error) {
	where := `seq > ?`
	if q.where != "" {
		where = q.where + ` AND seq > ?`
	}
	args := append(append([]any(nil), q.args...), after, size)
	rows, err := db.QueryContext(ctx, `SELECT `+q.columns()+` FROM events WHERE `+where+` ORDER BY seq LIMIT ?`, args...)
	if err != nil {
		return nil, false, damaged(err)
	}
	defer rows.Close()
	for bytes := 0; rows.Next(); {
		r, err := scanRecord(rows)
		if err != nil {
			return page, false, err
		}
		page = append(page, r)
		if bytes += len(r.payload) + len(r.stdout) + len(r.stderr); bytes > maxPageBytes {
			return page, true, nil
		}
	}
	return page, len(page) == size, damaged(rows.Err())
}
