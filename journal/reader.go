package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Reader reads a journal, also while a worker in another process writes it. It never
// writes. Its methods are safe for concurrent use.
type Reader struct {
	dir string
	db  *sql.DB
}

// OpenReader opens the journal in a folder for reading.
func OpenReader(dir string) (*Reader, error) {
	path := filepath.Join(dir, segmentFile)
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open journal %s: there is no journal in this folder (no file %s)", dir, segmentFile)
		}
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	db := openForReading(path)
	db.SetMaxOpenConns(2)
	return &Reader{dir: dir, db: db}, nil
}

// openForReading takes the database as a file that nobody changes where no
// write-ahead log stands beside it: SQLite would make one otherwise, which a
// reader may not, or cannot.
func openForReading(path string) *sql.DB {
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		return openURI(path, url.Values{"mode": {"ro"}, "immutable": {"1"}})
	}
	return openDatabase(path, "ro")
}

// Close ends reading.
func (r *Reader) Close() error { return r.db.Close() }

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
			yield(Event{}, err)
			return
		}
		scan(ctx, r.db, q)(yield)
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

// newest narrows the conditions to the newest n events that fulfil them.
func (r *Reader) newest(ctx context.Context, n int, conditions *[]string, args *[]any) error {
	where := ``
	if len(*conditions) > 0 {
		where = ` WHERE ` + strings.Join(*conditions, ` AND `)
	}
	var first sql.NullInt64
	err := r.db.QueryRowContext(ctx,
		`SELECT min(seq) FROM (SELECT seq FROM events`+where+` ORDER BY seq DESC LIMIT ?)`,
		append(append([]any(nil), *args...), n)...).Scan(&first)
	if err != nil {
		return fmt.Errorf("read journal %s: %w", r.dir, damaged(err))
	}
	*conditions, *args = append(*conditions, `seq >= ?`), append(*args, first.Int64)
	return nil
}

// firstAt is the sequence number of the first event at or after a time, by
// bisection; one after the newest where there is none.
func (r *Reader) firstAt(ctx context.Context, at time.Time) (uint64, error) {
	newest, err := r.Newest(ctx)
	if err != nil {
		return 0, err
	}
	low, high := uint64(1), newest+1
	for low < high {
		middle := low + (high-low)/2
		var micros int64
		err := r.db.QueryRowContext(ctx, `SELECT time FROM events WHERE seq = ?`, int64(middle)).Scan(&micros)
		if err != nil {
			return 0, fmt.Errorf("read journal %s: event %d: %w", r.dir, middle, damaged(err))
		}
		if micros < at.UnixMicro() {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// Newest is the newest event's sequence number, 0 where there is none.
func (r *Reader) Newest(ctx context.Context) (uint64, error) {
	var seq int64
	err := r.db.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM events`).Scan(&seq)
	if err != nil {
		return 0, fmt.Errorf("read journal %s: %w", r.dir, damaged(err))
	}
	return uint64(seq), nil
}

// Position is the newest event that the jobs table is known to show.
func (r *Reader) Position(ctx context.Context) (uint64, error) {
	seq, err := position(ctx, r.db)
	if err != nil {
		return 0, fmt.Errorf("read journal %s: %w", r.dir, err)
	}
	return seq, nil
}

// State is the state as it was at a time, by replay; the zero time means now.
// It holds every job that the journal ever mentioned.
func (r *Reader) State(ctx context.Context, at time.Time) (*State, error) {
	state := &State{KeepEnded: true}
	f := Filter{}
	if !at.IsZero() {
		f.Until = at.Add(time.Microsecond)
	}
	for e, err := range r.Events(ctx, f) {
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return nil, fmt.Errorf("replay journal %s: %w", r.dir, err)
		}
	}
	return state, nil
}

// Verify reads the whole journal and checks sequence, hash chain, transitions, times and
// the head file. It gives the state after the last sound event; a
// *DamagedError says what is wrong with the next.
func (r *Reader) Verify(ctx context.Context) (*State, error) {
	// The head goes first: what is acknowledged while we read is not missed.
	acknowledged, hash, err := readHead(r.dir)
	if err != nil {
		return &State{}, err
	}
	state := &State{}
	if err := fold(ctx, r.db, state); err != nil {
		return state, err
	}
	return state, checkHead(ctx, r.db, state.Seq, acknowledged, hash)
}
