package index

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"jobd/journal"
	"jobd/journal/replay"
)

// writer brings the file up to date. Whatever fails leaves it behind what its fold has taken: it is of no more use
// then.
type writer struct {
	*Index
	noted
	db    *sql.DB
	state journal.State // the jobs under way

	insert, fail, mend, words, rates, note *sql.Stmt
	hour                                   int64 // up to which old steps were removed
}

// begin compares the file with the journal, and takes up the jobs under way: those that the file has, or of a new
// one those that the journal's oldest checkpoint has.
func (w *writer) begin(ctx context.Context) (err error) {
	for _, s := range []struct {
		to    **sql.Stmt
		query string
	}{
		{&w.insert, `INSERT OR REPLACE INTO jobs VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`},
		{&w.fail, `INSERT OR REPLACE INTO failures VALUES (?,?,?,?,?)`},
		{&w.mend, `DELETE FROM failures WHERE id = ?`},
		{&w.words, `INSERT INTO words (rowid, text) VALUES (?, ?)`},
		{&w.rates, `INSERT INTO rates VALUES (?,?,?,?,?,?) ON CONFLICT DO UPDATE SET
			started = started + excluded.started, ended = ended + excluded.ended, failed = failed + excluded.failed`},
		{&w.note, `UPDATE noted SET seq = ?, hash = ?, begun = ?, built = ?, gone = ?, swept = ?`},
	} {
		if *s.to, err = w.db.PrepareContext(ctx, s.query); err != nil {
			return err
		}
	}
	first, jobs, err := w.oldest(ctx)
	if err != nil {
		return err
	}
	w.state = journal.State{KeepEnded: true, Jobs: map[int64]*journal.Job{}}
	if w.seq > 0 {
		if err := w.check(ctx, w.noted, first); err != nil {
			return err
		}
		w.gone = max(w.gone, first-1)
		err = w.load(ctx)
	} else {
		w.noted = noted{seq: first - 1, begun: first - 1, gone: first - 1, swept: first - 1, hash: []byte{}}
		err = w.seed(ctx, jobs)
	}
	w.state.Seq = w.seq
	return err
}

// load takes up the jobs under way that the file has.
func (w *writer) load(ctx context.Context) error {
	rows, err := w.db.QueryContext(ctx, `SELECT job FROM jobs INDEXED BY jobs_state WHERE state <= ?`, running)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		job := &journal.Job{}
		if err := rows.Scan(&text); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(text), job); err != nil {
			return fmt.Errorf("%w: a job can't be read: %w", errUnfit, err)
		}
		w.state.Jobs[job.ID] = job
	}
	return rows.Err()
}

// seed begins a file with the jobs of a checkpoint. Nobody knows the events by which they became what they are:
// they get numbers below the first one that is kept, in the order of their times.
func (w *writer) seed(ctx context.Context, jobs []journal.Job) error {
	since := func(j journal.Job) time.Time {
		if j.Running.After(j.Accepted.Time) {
			return j.Running.Time
		}
		return j.Accepted.Time
	}
	slices.SortFunc(jobs, func(a, b journal.Job) int { return since(b).Compare(since(a)) })
	changes := map[int64]change{}
	for i := range jobs {
		w.state.Jobs[jobs[i].ID] = &jobs[i]
		changes[jobs[i].ID] = change{seq: w.seq - uint64(min(i, int(w.seq)-1)), at: since(jobs[i]).UnixMicro()}
	}
	return w.write(ctx, changes, nil, nil)
}

// change is what a batch makes of a job: the last event by which it became something else.
type change struct {
	seq   uint64
	at    int64
	words string
	used  [2]int64 // of an end: processor time in microseconds, and bytes of memory; 0: nobody knows
}

// widths are how many seconds the steps of rates have, each with for how long they are kept.
var widths = map[int64]int64{15: 3600, 60: 7 * 3600, 3600: 7*86400 + 3600}

// step is a step of rates.
type step struct {
	width  int64
	target string
	begin  int64
}

// counts is what happened in one.
type counts struct{ started, ended, failed int64 }

// add takes events in, in one transaction.
func (w *writer) add(ctx context.Context, events []journal.Event) error {
	changes, rates, ends := map[int64]change{}, map[step]counts{}, ends{}
	for i := range events {
		if err := w.apply(ctx, &events[i], changes, rates, ends); err != nil {
			return err
		}
	}
	last := &events[len(events)-1]
	w.seq, w.hash = last.Seq, last.Hash[:]
	w.built = w.built || w.seq+batchEvents >= w.newest()
	err := w.write(ctx, changes, rates, ends)
	maps.DeleteFunc(w.state.Jobs, func(_ int64, job *journal.Job) bool { return job.Status.Ended() })
	return err
}

// ends are the rows of failures of jobs that have ended; nil: it ended well.
type ends map[int64][]any

// apply folds one event, and notes what it changes.
func (w *writer) apply(ctx context.Context, e *journal.Event, changes map[int64]change, rates map[step]counts, ends ends) error {
	if gone, ok := e.Payload.(journal.Retention); ok {
		w.gone = max(w.gone, gone.Seq)
	}
	if says, ok := e.Payload.(journal.Conflict); ok && (says.Wanted == journal.WantedRetried || says.Wanted == journal.RowIgnored) {
		if err := w.recall(ctx, e, says.Wanted); err != nil {
			return err
		}
	}
	before := w.state.Job(e.Job).Status
	if err := w.state.Apply(*e); err != nil {
		return fmt.Errorf("%w: event %d: %w", errUnfit, e.Seq, err)
	}
	if e.Job == 0 {
		return nil
	}
	job := w.state.Jobs[e.Job]
	switch p := e.Payload.(type) {
	case journal.Started:
		count(rates, job.Target, e.Time, counts{started: 1})
	case journal.Done:
		now, at := counts{ended: 1}, e.Time.UnixMicro()
		ends[e.Job] = nil
		if p.Result == "fail" {
			now.failed, ends[e.Job] = 1, []any{int64(e.Seq), e.Job, job.Target, at, failureOf(&p)}
		}
		count(rates, job.Target, e.Time, now)
		changes[e.Job] = change{e.Seq, at, wordsOf(job.Target, &p), [2]int64{p.CPU, p.Memory}}
		return nil
	case journal.Running, journal.Ignored, journal.Retried, journal.Planned: // also of one that was just that
		before = journal.StatusNone
	}
	former := changes[e.Job]
	if job.Status != before {
		former = change{seq: e.Seq, at: e.Time.UnixMicro()}
	}
	changes[e.Job] = former
	return nil
}

// recall puts into the fold what a conflict takes back, an ignored or a retried event, where the fold does not have
// it, or not what the job was before it: that is in the journal alone.
func (w *writer) recall(ctx context.Context, e *journal.Event, wanted string) error {
	job := w.state.Job(e.Job)
	was := stateOf(job.Status, job.Result)
	if job.Status == journal.StatusNone {
		err := w.db.QueryRowContext(ctx, `SELECT state FROM jobs WHERE id = ?`, e.Job).Scan(&was)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	switch {
	case was == ignored && wanted == journal.RowIgnored && job.Status == journal.StatusNone:
	case was == retried && wanted == journal.WantedRetried && job.Before == nil:
	default:
		return nil
	}
	r, err := replay.Open(w.config.Dir)
	if err != nil {
		return err
	}
	past := journal.State{KeepEnded: true}
	for old, err := range r.Events(ctx, journal.Filter{Job: e.Job}) {
		if err != nil {
			return err
		}
		if old.Seq >= e.Seq {
			break
		}
		past.Seq = old.Seq - 1
		_ = past.Apply(old) // what its beginning is missing for changes nothing
	}
	if job := past.Jobs[e.Job]; job != nil {
		w.state.Jobs[e.Job] = job
	}
	return nil
}

// count adds to the steps of a time.
func count(rates map[step]counts, target string, at time.Time, now counts) {
	for width := range widths {
		for _, of := range []string{target, ""} {
			s := step{width, of, at.Unix() - at.Unix()%width}
			sum := rates[s]
			rates[s] = counts{sum.started + now.started, sum.ended + now.ended, sum.failed + now.failed}
		}
	}
}

// write writes what has changed, with the note of how far that is, in one transaction. The words come last: any
// other statement behind one of them would have FTS5 write out what it gathers.
func (w *writer) write(ctx context.Context, changes map[int64]change, rates map[step]counts, ends ends) error {
	maps.DeleteFunc(changes, func(id int64, c change) bool {
		return c.seq == 0 || w.state.Job(id).Status == journal.StatusNone
	})
	ids := slices.SortedFunc(maps.Keys(changes), func(a, b int64) int { return cmp.Compare(changes[a].seq, changes[b].seq) })
	return w.transact(ctx, func(tx *sql.Tx) error {
		insert, add, words := tx.StmtContext(ctx, w.insert), tx.StmtContext(ctx, w.rates), tx.StmtContext(ctx, w.words)
		fail, mend := tx.StmtContext(ctx, w.fail), tx.StmtContext(ctx, w.mend)
		for _, id := range ids {
			if err := w.step("insert", insert, ctx, w.row(w.state.Jobs[id], changes[id])...); err != nil {
				return err
			}
		}
		for id, row := range ends {
			end, args := fail, row
			if row == nil {
				end, args = mend, []any{id}
			}
			if err := w.step("ends", end, ctx, args...); err != nil {
				return err
			}
		}
		var hour int64
		for s, n := range rates {
			if err := w.step("rates", add, ctx, s.width, s.target, s.begin, n.started, n.ended, n.failed); err != nil {
				return err
			}
			hour = max(hour, s.begin-s.begin%3600)
		}
		if err := w.forget(ctx, tx, hour); err != nil {
			return err
		}
		for _, id := range ids {
			if c := changes[id]; c.words != "" {
				if err := w.step("words", words, ctx, int64(c.seq), c.words); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// mostReason is how many bytes of a reason rows have, and of the last line of stderr.
const mostReason = 200

// failure is a failed end as rows have it, without its output but the last line of stderr.
type failure struct {
	journal.Done
	Line string `json:"line,omitempty"`
}

func failureOf(done *journal.Done) string {
	line := done.Stderr.LastLine()
	text, err := json.Marshal(failure{*done, strings.ToValidUTF8(string(line[:min(len(line), mostReason)]), "")})
	if err != nil {
		panic(err) // as in the journal
	}
	return string(text)
}

// row is a job's row. What is only known while the fold has it, such as what a retried job was before, is not in
// it: a row is the same whichever batch its event came with.
func (w *writer) row(job *journal.Job, c change) []any {
	var fold, code any
	claimed, started := micros(job.Accepted.Time), micros(job.Running.Time)
	if !job.Status.Ended() {
		text, err := json.Marshal(job)
		if err != nil {
			panic(err) // as in a checkpoint
		}
		fold = string(text)
	} else if job.Status == journal.StatusRetried {
		claimed, started = 0, 0
	}
	if job.Code != nil {
		code = *job.Code
	}
	reason := strings.ToValidUTF8(job.Reason[:min(len(job.Reason), mostReason)], "")
	return []any{
		int64(c.seq), job.ID, job.Target, stateOf(job.Status, job.Result), c.at, job.Manual, job.Attempt, job.Executor,
		claimed, started, micros(job.Ended), code, job.Signal, reason, c.used[0], c.used[1], fold,
	}
}

// micros is a time as rows have it.
func micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}

// forget removes steps that are too old, once an hour of the journal's time.
func (w *writer) forget(ctx context.Context, tx *sql.Tx, hour int64) error {
	if hour <= w.hour {
		return nil
	}
	w.hour = hour
	for width, kept := range widths {
		if _, err := tx.ExecContext(ctx, `DELETE FROM rates WHERE width = ? AND step < ?`, width, hour-kept); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes a part of the rows that retention has left without their events. A job under way keeps its row.
func (w *writer) sweep(ctx context.Context) error {
	if w.swept >= w.gone {
		return nil
	}
	from := w.swept
	w.swept = min(w.gone, from+sweepEvents)
	return w.transact(ctx, func(tx *sql.Tx) error {
		if err := w.config.fault("sweep"); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM jobs WHERE seq > ? AND seq <= ? AND state > ?`, int64(from), int64(w.swept), running)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM failures WHERE seq > ? AND seq <= ?`, int64(from), int64(w.swept))
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM words WHERE rowid > ? AND rowid <= ?`, int64(from), int64(w.swept))
		}
		return err
	})
}

// transact does something and notes how far the file is, both or neither.
func (w *writer) transact(ctx context.Context, do func(tx *sql.Tx) error) error {
	if err := w.config.fault("begin"); err != nil {
		return err
	}
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	n := w.noted
	err = w.step("note", tx.StmtContext(ctx, w.note), ctx, int64(n.seq), n.hash, int64(n.begun), n.built, int64(n.gone), int64(n.swept))
	if err == nil {
		err = do(tx)
	}
	if err == nil {
		err = w.config.fault("commit")
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (w *writer) step(name string, s *sql.Stmt, ctx context.Context, args ...any) error {
	if err := w.config.fault(name); err != nil {
		return err
	}
	_, err := s.ExecContext(ctx, args...)
	return err
}

func (w *writer) close() error {
	var errs []error
	for _, s := range []*sql.Stmt{w.insert, w.fail, w.mend, w.words, w.rates, w.note} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// The bounds of words.
const (
	tailBytes   = 2 << 10 // of each stream
	longestWord = 40      // bytes; what is longer is cut, here and where it is looked for
	mostWords   = 16      // that are looked for at once
	leastPrefix = 3       // bytes of a word's beginning
)

// colours are what terminals take for commands.
var colours = regexp.MustCompile(`\x1b\[[0-9;:?]*[ -/]*[@-~]`)

// wordsOf gives what is looked for in a job that has ended.
func wordsOf(target string, done *journal.Done) string {
	var b strings.Builder
	for _, text := range []string{target, done.Signal, done.Reason, done.Note, tail(done.Stdout.Kept), tail(done.Stderr.Kept)} {
		eachWord(text, func(word string, _ bool) {
			b.WriteString(word)
			b.WriteByte(' ')
		})
	}
	return b.String()
}

// tail is the end of an output, without colours; a word that it begins with may be the end of one.
func tail(output []byte) string {
	output = output[max(0, len(output)-tailBytes):]
	if bytes.IndexByte(output, 0x1b) >= 0 {
		output = colours.ReplaceAll(output, nil)
	}
	return string(output)
}

// eachWord gives the words of a text: runs of letters and digits, in small letters. starred: a * stands behind it.
// SQLite is given nothing else, so that it can't take a text for anything but words.
func eachWord(text string, use func(word string, starred bool)) {
	begin := -1
	end := func(at int) {
		if begin >= 0 {
			word := strings.ToLower(text[begin:at])
			cut := word[:min(len(word), longestWord)]
			for len(cut) > 0 && !utf8.ValidString(cut) {
				cut = cut[:len(cut)-1]
			}
			if cut != "" {
				use(cut, at < len(text) && text[at] == '*')
			}
		}
		begin = -1
	}
	for i, r := range text {
		if r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)) {
			if begin < 0 {
				begin = i
			}
		} else {
			end(i)
		}
	}
	end(len(text))
}

// match is a text as FTS5 looks for it: all its words, each quoted; "" where it has none. A beginning that is too
// short is looked for as a word.
func match(text string) string {
	var terms []string
	eachWord(text, func(word string, starred bool) {
		if len(terms) == mostWords {
			return
		}
		term := `"` + word + `"`
		if starred && len(word) >= leastPrefix {
			term += "*"
		}
		terms = append(terms, term)
	})
	return strings.Join(terms, " AND ")
}
