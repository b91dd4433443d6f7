package segment

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
	"time"

	"jobd/journal"
)

// pageSize is how many events one statement reads: a statement that runs for
// long would keep the write-ahead log from being emptied.
const pageSize = 2000

// maxPageBytes bounds the payloads and the output that a page holds in memory.
const maxPageBytes = 4 << 20

// Records implements source. Each page is a statement of its own.
func (d *Database) Records(ctx context.Context, sel Selection) iter.Seq2[[]Record, error] {
	return func(yield func([]Record, error) bool) {
		after := int64(math.MinInt64) // so that a number that cannot be is met as well
		if sel.After > 0 {
			after = int64(sel.After)
		}
		for more := true; more; {
			var page []Record
			began := time.Now()
			err := d.read(func(db *sql.DB) (err error) {
				page, more, err = d.page(ctx, db, sel, after, pageSize)
				return err
			})
			d.restAfter(ctx, began)
			if len(page) > 0 {
				after = int64(page[len(page)-1].Seq)
			}
			if err != nil && sel.GoOn && IsDamage(err) {
				damage := d.pass(ctx, sel, after)
				if len(page) > 0 && !yield(page, nil) || !yield(nil, damage) || damage.Last == 0 {
					return
				}
				after, more = int64(damage.Last), true
				continue
			}
			if (len(page) > 0 || err != nil) && !yield(page, Damaged(err)) || err != nil {
				return
			}
		}
	}
}

// page reads records behind a sequence number, fewer than a page where they are large, and tells
// whether there may be more. It goes past database/sql, which costs as much as SQLite itself.
func (d *Database) page(ctx context.Context, db *sql.DB, sel Selection, after int64, limit int) (page []Record, more bool, err error) {
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
func (d *Database) scan(rows driver.Rows, limit int) (page []Record, more bool, err error) {
	values := make([]driver.Value, 8)
	for size := 0; ; {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return page, len(page) == limit, nil
		} else if err != nil {
			return page, false, err
		}
		r, err := d.scanRecord(values)
		if err != nil {
			return page, false, err
		}
		page = append(page, r)
		if size += r.size(); size > maxPageBytes {
			return page, true, nil
		}
	}
}

// scanRecord takes a row's values apart. Blobs are the driver's copies, so they may be kept.
func (d *Database) scanRecord(values []driver.Value) (r Record, err error) {
	seq, isSeq := values[0].(int64)
	micros, isTime := values[1].(int64)
	job, isJob := values[2].(int64)
	kind, isKind := values[3].(string)
	payload, isPayload := values[4].([]byte)
	hash, _ := values[7].([]byte)
	if r = (Record{Seq: uint64(seq), Micros: micros, Job: job, Payload: payload}); !isSeq || !isTime || !isJob || !isKind || !isPayload {
		return r, &journal.DamagedError{Seq: r.Seq, Detail: "its columns are not of the types that they were made with"}
	}
	if len(hash) != len(r.Hash) {
		return r, &journal.DamagedError{Seq: r.Seq, Detail: fmt.Sprintf("its hash has %d bytes", len(hash))}
	}
	copy(r.Hash[:], hash)
	r.Kind = journal.Kind(kind)
	if r.Stdout, err = d.output(values[5]); err == nil {
		r.Stderr, err = d.output(values[6])
	}
	var damage *journal.DamagedError
	if errors.As(err, &damage) {
		damage.Seq = r.Seq
	}
	return r, err
}

func (d *Database) output(value driver.Value) ([]byte, error) {
	stored, _ := value.([]byte)
	return unpack(d.decoder, some(stored))
}
