package journal

import (
	"context"
	"database/sql"
	"iter"
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

// scan reads events page by page. It ends at the first error.
func scan(ctx context.Context, db *sql.DB, q query) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for r, err := range scanRecords(ctx, db, q) {
			var e Event
			if err == nil {
				e, err = r.decode()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// scanRecords is scan before the payloads are decoded.
func scanRecords(ctx context.Context, db *sql.DB, q query) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		var last uint64
		for left := q.limit; ; {
			size := pageSize
			if q.limit > 0 {
				size = min(size, left)
			}
			page, more, err := readPage(ctx, db, q, last, size)
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
				last = r.seq
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

// maxPageBytes bounds the output that a page holds in memory.
const maxPageBytes = 4 << 20

// readPage reads up to size records behind seq, fewer where their output is
// large, and tells whether there may be more.
func readPage(ctx context.Context, db *sql.DB, q query, after uint64, size int) (page []record, more bool, err error) {
	where := `seq > ?`
	if q.where != "" {
		where = q.where + ` AND seq > ?`
	}
	args := append(append([]any(nil), q.args...), int64(after), size)
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
		if bytes += len(r.stdout) + len(r.stderr); bytes > maxPageBytes {
			return page, true, nil
		}
	}
	return page, len(page) == size, damaged(rows.Err())
}
