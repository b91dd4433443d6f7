package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// Query says which jobs are looked for. What is empty leaves nothing out.
type Query struct {
	Targets      []string // nil: all
	Status       journal.Status
	Result       string // ok or fail
	Codes        []int
	Since, Until time.Time
	Text         string // words, and beginnings of words with a * behind them
	Failures     bool   // of each job its newest end, where that is a failure: of all statuses
	Before       Key    // only jobs behind it
	Most         int
}

// Key is the place of a job in the order of all, the newest first. The zero value is no place.
type Key struct {
	At  int64 // microseconds since 1970
	Seq uint64
}

// Job is what the index has of one. Times that are not known are zero.
type Job struct {
	Key
	ID                      int64
	Target                  string
	Status                  journal.Status
	Result                  string // of one that is done
	Manual                  bool
	Attempt                 int
	Executor                string
	Claimed, Started, Ended time.Time
	Code                    *int
	Signal, Reason          string
	CPU, Memory             int64  // what it used: microseconds of processors, bytes; 0: nobody knows
	Failure                 []byte // of Failures, which have no more beside than a target: the done event, and line
}

// The bounds of one query.
const (
	mostArms    = 64                    // walks along an index that are merged
	firstWindow = 1 << 13               // events; each window behind it has four times as many
	queryTime   = 20 * time.Millisecond // after which a query that looks at rows one by one tells how far it came
	longestTime = 5 * time.Second       // after which any gives up
	searchRests = 1                     // for how many times as long as a search takes the next one waits
	opening     = 2 * time.Second       // for which the first one waits until there is a file
)

// ErrNone says that there is no index now.
var ErrNone = errors.New("the index of jobs is not there yet")

// ErrWords says that a text has no word in it.
var ErrWords = errors.New("there is no word in the text: a word is made of letters and digits")

// read has a query read the file. What it finds damaged is made anew. Who asks first has the file opened.
func (x *Index) read(ctx context.Context, query func(ctx context.Context, db *sql.DB) error) error {
	x.want.Do(func() { close(x.wanted) })
	x.mu.RLock()
	there := x.readers != nil
	x.mu.RUnlock()
	if !there {
		select {
		case <-x.opened:
		case <-time.After(opening):
		case <-ctx.Done():
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.readers == nil {
		return ErrNone
	}
	ctx, cancel := context.WithTimeout(ctx, longestTime)
	defer cancel()
	err := query(ctx, x.readers)
	if archive.IsDamage(err) {
		x.spoil(fmt.Errorf("%w: a query met: %w", errUnfit, err))
	}
	return err
}

// Targets are the targets that jobs of the index have.
func (x *Index) Targets(ctx context.Context) (names []string, err error) {
	err = x.read(ctx, func(ctx context.Context, db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `WITH RECURSIVE next (name) AS (SELECT min(target) FROM jobs
			UNION ALL SELECT (SELECT min(target) FROM jobs WHERE target > next.name) FROM next WHERE next.name IS NOT NULL)
			SELECT name FROM next WHERE name IS NOT NULL`)
		return each(rows, err, func() error {
			var name string
			err := rows.Scan(&name)
			names = append(names, name)
			return err
		})
	})
	return names, err
}

// each reads the rows of an answer.
func each(rows *sql.Rows, err error, row func() error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Jobs gives jobs, the newest first, and the place behind which to go on: the zero value where there are no more.
func (x *Index) Jobs(ctx context.Context, q Query) (jobs []Job, next Key, err error) {
	words := ""
	if q.Text != "" {
		if words = match(q.Text); words == "" {
			return nil, Key{}, ErrWords
		}
	}
	states := q.states()
	if len(states) == 0 || q.Targets != nil && len(q.Targets) == 0 {
		return nil, Key{}, nil
	}
	w := &walk{Query: q, states: states, words: words}
	if !w.isWhole() {
		done, err := x.rested(ctx)
		if err != nil {
			return nil, Key{}, err
		}
		defer done()
	}
	err = x.read(ctx, func(ctx context.Context, db *sql.DB) (err error) {
		w.db = db
		jobs, next, err = w.run(ctx)
		return err
	})
	return jobs, next, err
}

// rested waits for its turn: one search that looks at rows one by one is under way at a time, and behind each nobody
// searches for searchRests times as long as it took. However many search, and without a pause, they take half of a
// processor from jobs.
func (x *Index) rested(ctx context.Context) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, longestTime)
	defer cancel()
	select {
	case x.search <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began := time.Now()
	return func() { time.AfterFunc(searchRests*time.Since(began), func() { <-x.search }) }, nil
}

// states are those that a query asks for; all of them are none left out.
func (q *Query) states() (states []state) {
	for s := accepted; s <= conflict; s++ {
		result := map[state]string{succeeded: "ok", failed: "fail"}[s]
		done := q.Result != "" || len(q.Codes) > 0 || q.Text != ""
		if (q.Status == "" || q.Status == statuses[s]) && (!done || result != "") && (q.Result == "" || q.Result == result) {
			states = append(states, s)
		}
	}
	return states
}

// walk is one query under way.
type walk struct {
	Query
	db     *sql.DB
	states []state
	words  string
}

// table has the rows.
func (w *walk) table() string {
	if w.Failures {
		return "failures"
	}
	return "jobs"
}

// run finds the rows, window by window where rows are looked at one by one.
func (w *walk) run(ctx context.Context) (jobs []Job, next Key, err error) {
	low, high, err := w.bounds(ctx)
	if err != nil {
		return nil, Key{}, err
	}
	deadline := time.Now().Add(queryTime)
	for window := uint64(firstWindow); low < high; window *= 4 {
		from, whole := low, w.isWhole()
		if !whole && high-low > window {
			from = high - window
		}
		some, err := w.inTime(ctx, window == firstWindow, deadline, from, high, w.Most-len(jobs)+1)
		if errors.Is(err, errLate) {
			next, err = w.at(ctx, high)
			return jobs, next, err
		}
		if err != nil {
			return nil, Key{}, err
		}
		jobs, high = append(jobs, some...), from
		if len(jobs) > w.Most {
			return jobs[:w.Most], jobs[w.Most-1].Key, nil
		}
		if from > low && time.Now().After(deadline) {
			next, err = w.at(ctx, from)
			return jobs, next, err
		}
	}
	return jobs, Key{}, nil
}

// errLate says that a window took too long.
var errLate = errors.New("too late")

// inTime gives rows of a window. The first one has as long as it takes, so that every query gets on.
func (w *walk) inTime(ctx context.Context, first bool, deadline time.Time, low, high uint64, most int) ([]Job, error) {
	if first {
		return w.some(ctx, low, high, most)
	}
	short, cancel := context.WithDeadline(ctx, deadline.Add(queryTime))
	defer cancel()
	jobs, err := w.some(short, low, high, most)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		err = errLate
	}
	return jobs, err
}

// isWhole tells whether the index has all that is asked for.
func (w *walk) isWhole() bool {
	_, _, rest, _ := w.arms()
	return rest == "" && w.words == ""
}

// at is the place before which all events have a lower number: of the next row from there on.
func (w *walk) at(ctx context.Context, seq uint64) (k Key, err error) {
	err = w.db.QueryRowContext(ctx, `SELECT at FROM `+w.table()+` WHERE seq >= ? ORDER BY seq LIMIT 1`, int64(seq)).Scan(&k.At)
	k.Seq = seq
	return k, err
}

// bounds are the numbers of events between which the rows are that a query may find: from low on, before high.
func (w *walk) bounds(ctx context.Context) (low, high uint64, err error) {
	var first, last sql.NullInt64
	table := w.table()
	if err := w.db.QueryRowContext(ctx, `SELECT (SELECT min(seq) FROM `+table+`), (SELECT max(seq) FROM `+table+`)`).Scan(&first, &last); err != nil || !last.Valid {
		return 0, 0, err
	}
	low, high = uint64(first.Int64), uint64(last.Int64)+1
	search := func(at int64) uint64 {
		found, beyond := low, high
		for found < beyond && err == nil {
			middle, seq := found+(beyond-found)/2, uint64(0)
			var k Key
			err = w.db.QueryRowContext(ctx, `SELECT seq, at FROM `+table+` WHERE seq >= ? ORDER BY seq LIMIT 1`, int64(middle)).Scan(&seq, &k.At)
			if k.At >= at {
				beyond = middle
			} else {
				found = seq + 1
			}
		}
		return found
	}
	from, to := low, high
	if !w.Since.IsZero() {
		from = search(w.Since.UnixMicro())
	}
	if !w.Until.IsZero() {
		to = search(w.Until.UnixMicro())
	}
	if w.Before != (Key{}) {
		to = min(to, max(search(w.Before.At), min(w.Before.Seq, search(w.Before.At+1))))
	}
	return from, to, err
}

// arms are the walks along an index that are merged: its name, the condition of each with its values, and what is
// left to be looked at row by row.
func (w *walk) arms() (index string, arms [][]any, rest string, args []any) {
	all := len(w.states) == int(conflict)
	byTarget, byState := w.Targets != nil, !all
	switch {
	case w.words != "":
		byTarget, byState = false, false
	case w.Failures && len(w.Targets) <= mostArms:
		for _, target := range w.Targets {
			index, arms = "failures_target", append(arms, []any{target})
		}
	case w.Failures:
		byTarget = false
	case len(w.Codes) > 0 && !slices.Contains(w.Codes, 0):
		index, byTarget, byState = "jobs_code", false, false
		for _, code := range w.Codes {
			arms = append(arms, []any{code})
		}
	case byTarget && len(w.Targets)*len(w.states) <= mostArms:
		index, byState = "jobs_target", true
		for _, target := range w.Targets {
			for _, s := range w.states {
				arms = append(arms, []any{target, s})
			}
		}
	case byState:
		index, byTarget = "jobs_state", false
		for _, s := range w.states {
			arms = append(arms, []any{s})
		}
	default:
		byTarget, byState = false, false
	}
	in := func(column string, n int) string {
		return " AND " + column + " IN (?" + strings.Repeat(",?", n-1) + ")"
	}
	if w.Targets != nil && !byTarget {
		rest += in("target", len(w.Targets))
		for _, target := range w.Targets {
			args = append(args, target)
		}
	}
	if !all && !byState && !(index == "jobs_code" && len(w.states) == 2) && !(w.words != "" && len(w.states) == 2) {
		rest += in("state", len(w.states))
		for _, s := range w.states {
			args = append(args, s)
		}
	}
	if len(w.Codes) > 0 && index != "jobs_code" {
		rest += in("code", len(w.Codes))
		for _, code := range w.Codes {
			args = append(args, code)
		}
	}
	return index, arms, rest, args
}

// conditions are those of an arm.
var conditions = map[string]string{
	"jobs_code": "code = ? AND code > 0", "jobs_target": "target = ? AND state = ?", "jobs_state": "state = ?", "failures_target": "target = ?",
}

// statement is the query for rows from low on, before high.
func (w *walk) statement(low, high uint64, most int) (text string, args []any) {
	index, arms, rest, restArgs := w.arms()
	const between = "seq >= ? AND seq < ?"
	add := func(values ...any) {
		args = append(append(append(args, values...), int64(low), int64(high)), restArgs...)
	}
	switch {
	case w.words != "":
		text = "SELECT jobs.seq FROM words CROSS JOIN jobs ON jobs.seq = words.rowid WHERE words MATCH ? AND words.rowid >= ? AND words.rowid < ?" + rest +
			" ORDER BY words.rowid DESC LIMIT ?"
		add(w.words)
	case len(arms) == 0:
		text = "SELECT seq FROM " + w.table() + " NOT INDEXED WHERE " + between + rest + " ORDER BY seq DESC LIMIT ?"
		add()
	default:
		for i, arm := range arms {
			if i > 0 {
				text += " UNION ALL "
			}
			text += "SELECT seq FROM " + w.table() + " INDEXED BY " + index + " WHERE " + conditions[index] + " AND " + between + rest
			add(arm...)
		}
		text += " ORDER BY seq DESC LIMIT ?"
	}
	columns := "state, at, manual, attempt, executor, claimed, started, ended, code, signal, reason, cpu, memory, NULL"
	if w.Failures {
		columns = fmt.Sprintf("%d, at, 0, 0, '', 0, 0, 0, NULL, '', '', 0, 0, failure", failed)
	}
	return `SELECT seq, id, target, ` + columns + ` FROM ` + w.table() + `
		WHERE seq IN (` + text + `) ORDER BY seq DESC`, append(args, most)
}

// some gives rows.
func (w *walk) some(ctx context.Context, low, high uint64, most int) (jobs []Job, err error) {
	text, args := w.statement(low, high, most)
	rows, err := w.db.QueryContext(ctx, text, args...)
	err = each(rows, err, func() error {
		var j Job
		var s state
		var claimed, started, ended int64
		err := rows.Scan(&j.Seq, &j.ID, &j.Target, &s, &j.At, &j.Manual, &j.Attempt, &j.Executor, &claimed, &started, &ended, &j.Code, &j.Signal, &j.Reason, &j.CPU, &j.Memory, &j.Failure)
		j.Status, j.Result = statuses[s], map[state]string{succeeded: "ok", failed: "fail"}[s]
		j.Claimed, j.Started, j.Ended = moment(claimed), moment(started), moment(ended)
		jobs = append(jobs, j)
		return err
	})
	return jobs, err
}

// moment is a time that rows have.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// Counts are how many jobs were started, ended and failed, step by step.
type Counts struct{ Started, Ended, Failed []int64 }

// Rates gives what happened in n steps of so many seconds, from a time on that begins one, of targets together; nil
// is all. The steps are those that the index keeps.
func (x *Index) Rates(ctx context.Context, width, from int64, n int, targets []string) (c Counts, err error) {
	c = Counts{make([]int64, n), make([]int64, n), make([]int64, n)}
	if targets == nil {
		targets = []string{""}
	}
	err = x.read(ctx, func(ctx context.Context, db *sql.DB) error {
		for some := range slices.Chunk(targets, 100) {
			args := []any{width, from, from + int64(n)*width}
			for _, target := range some {
				args = append(args, target)
			}
			rows, err := db.QueryContext(ctx, `SELECT step, started, ended, failed FROM rates WHERE width = ? AND step >= ? AND step < ? AND target IN (?`+
				strings.Repeat(",?", len(some)-1)+`)`, args...)
			err = each(rows, err, func() error {
				var at, started, ended, failed int64
				err := rows.Scan(&at, &started, &ended, &failed)
				if i := (at - from) / width; err == nil {
					c.Started[i], c.Ended[i], c.Failed[i] = c.Started[i]+started, c.Ended[i]+ended, c.Failed[i]+failed
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return c, err
}
