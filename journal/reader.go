package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Reader reads a journal, also while a worker in another process writes it. It never
// changes it: a journal at rest is left as it is found, file by file, and beside a write-ahead log
// only SQLite's shared index (-shm) is used. Its methods are safe for concurrent use.
type Reader struct {
	dir    string
	path   string
	beside *sql.DB // connects only when there is a write-ahead log
}

// OpenReader opens the journal in a folder for reading.
func OpenReader(dir string) (*Reader, error) {
	r := newReader(dir)
	if err := r.examine(context.Background()); err != nil {
		return nil, errors.Join(r.failed("open", err), r.Close())
	}
	return r, nil
}

func newReader(dir string) *Reader {
	path := filepath.Join(dir, segmentFile)
	return &Reader{dir: dir, path: path, beside: openForReading(path)}
}

// Close ends reading.
func (r *Reader) Close() error { return r.beside.Close() }

func (r *Reader) failed(op string, err error) error {
	return fmt.Errorf("%s journal %s: %w", op, r.dir, damaged(err))
}

// Filter selects events. The zero value selects all.
type Filter struct {
	After  uint64    // only events behind this sequence number
	Job    int64     // only events of this job
	Kinds  []Kind    // only events of these kinds
	Target string    // only events of this target's jobs, and about the target
	Since  time.Time // only events at or after this time
	Until  time.Time // only events before this time
	Last   int       // only the newest n of these
	Output bool      // with the jobs' stdout and stderr
}

// Events gives the selected events, oldest first. It ends at the first error.
// A job's output is left out unless the filter asks for it.
func (r *Reader) Events(ctx context.Context, f Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		q, err := r.query(ctx, f)
		if err != nil {
			yield(Event{}, r.failed("read", err))
			return
		}
		for e, err := range r.events(ctx, q) {
			if err != nil {
				err = r.failed("read", err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// ofTarget is true for an event of a target's job, by the newest claim before it,
// and for one that is about the target itself.
const ofTarget = `CASE WHEN job <> 0 THEN ? = (
    SELECT claim.payload ->> '$.target' FROM events AS claim
    WHERE claim.job = events.job AND claim.job <> 0 AND claim.seq <= events.seq AND claim.kind = 'accepted'
    ORDER BY claim.seq DESC LIMIT 1)
  ELSE payload ->> '$.target' = ? OR EXISTS (SELECT 1 FROM json_each(payload, '$.targets') WHERE value = ? OR key = ?) END`

// query puts a filter into SQL.
func (r *Reader) query(ctx context.Context, f Filter) (query, error) {
	var conditions []string
	var args []any
	add := func(condition string, values ...any) {
		conditions, args = append(conditions, condition), append(args, values...)
	}
	if f.After > 0 {
		add(`seq > ?`, int64(f.After))
	}
	if f.Job != 0 {
		add(`job = ? AND job <> 0`, f.Job)
	}
	if len(f.Kinds) > 0 {
		values := make([]any, len(f.Kinds))
		for i, kind := range f.Kinds {
			values[i] = string(kind)
		}
		add(`kind IN (?`+strings.Repeat(`, ?`, len(values)-1)+`)`, values...)
	}
	if f.Target != "" {
		add(ofTarget, f.Target, f.Target, f.Target, f.Target)
	}
	if err := r.between(ctx, f, add); err != nil {
		return query{}, err
	}
	if f.Last > 0 {
		if err := r.newest(ctx, f.Last, &conditions, &args); err != nil {
			return query{}, err
		}
	}
	return query{where: strings.Join(conditions, ` AND `), args: args, withoutOutput: !f.Output}, nil
}

// between turns times into sequence numbers: time grows with them.
func (r *Reader) between(ctx context.Context, f Filter, add func(string, ...any)) error {
	for _, bound := range []struct {
		at        time.Time
		condition string
	}{{f.Since, `seq >= ?`}, {f.Until, `seq < ?`}} {
		if bound.at.IsZero() {
			continue
		}
		seq, err := r.firstAt(ctx, bound.at)
		if err != nil {
			return err
		}
		add(bound.condition, int64(seq))
	}
	return nil
}

// newest narrows the conditions to the newest n events that fulfil them now.
func (r *Reader) newest(ctx context.Context, n int, conditions *[]string, args *[]any) error {
	where := ``
	if len(*conditions) > 0 {
		where = ` WHERE ` + strings.Join(*conditions, ` AND `)
	}
	var first, last sql.NullInt64
	err := r.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx,
			`SELECT min(seq), max(seq) FROM (SELECT seq FROM events`+where+` ORDER BY seq DESC LIMIT ?)`,
			append(slices.Clip(*args), n)...).Scan(&first, &last)
	})
	*conditions, *args = append(*conditions, `seq BETWEEN ? AND ?`), append(*args, first.Int64, last.Int64)
	return err
}

// firstAt is the sequence number of the first event at or after a time, by
// bisection; one after the newest where there is none.
func (r *Reader) firstAt(ctx context.Context, at time.Time) (uint64, error) {
	newest, err := r.lastSeq(ctx)
	if err != nil {
		return 0, err
	}
	micros := at.Add(time.Microsecond - 1).UnixMicro() // rounded up: events have whole ones
	low, high := uint64(1), newest+1
	for low < high {
		middle := low + (high-low)/2
		var then int64
		err := r.read(func(db *sql.DB) error {
			return db.QueryRowContext(ctx, `SELECT time FROM events WHERE seq = ?`, int64(middle)).Scan(&then)
		})
		if errors.Is(err, sql.ErrNoRows) {
			return 0, &DamagedError{Seq: middle, Detail: "it is missing"}
		}
		if err != nil {
			return 0, err
		}
		if then < micros {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

func (r *Reader) lastSeq(ctx context.Context) (uint64, error) {
	var seq int64
	err := r.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM events`).Scan(&seq)
	})
	return uint64(seq), err
}

// Newest is the newest event's sequence number, 0 where there is none.
func (r *Reader) Newest(ctx context.Context) (uint64, error) {
	seq, err := r.lastSeq(ctx)
	if err != nil {
		return 0, r.failed("read", err)
	}
	return seq, nil
}

// Position is the newest event that the jobs table is known to show.
func (r *Reader) Position(ctx context.Context) (uint64, error) {
	seq, err := r.position(ctx)
	if err != nil {
		return 0, r.failed("read", err)
	}
	return seq, nil
}

func (r *Reader) position(ctx context.Context) (uint64, error) {
	var seq int64
	err := r.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT seq FROM mirror`).Scan(&seq)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, &DamagedError{Detail: "the mirror's position is missing"}
	}
	return uint64(seq), damaged(err)
}

// State is the state as it was at a time, by replay; the zero time means now.
// It holds every job that the journal ever mentioned.
func (r *Reader) State(ctx context.Context, at time.Time) (*State, error) {
	state := &State{KeepEnded: true}
	f := Filter{}
	if !at.IsZero() {
		f.Until = at.Truncate(time.Microsecond).Add(time.Microsecond)
	}
	for e, err := range r.Events(ctx, f) {
		if err != nil {
			return nil, err
		}
		if err := state.Apply(e); err != nil {
			return nil, r.failed("replay", &DamagedError{Seq: e.Seq, Err: err})
		}
	}
	return state, nil
}
