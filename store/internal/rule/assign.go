package rule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"jobd/journal"
	"jobd/store"
)

// What a row gets: what a claim's events make of it, and how that, or a change of the mirror, is
// written into its columns.

// Verdict is what a claim makes of some of its rows.
type Verdict struct {
	verdict
	Jobs []int64
}

// verdict is what a row gets: the status and, where they are not empty, the token and the time of the
// start.
type verdict struct {
	status string
	token  string
	start  int64 // seconds since 1970, for running; else 0
	// note: why, for ignored where somebody cancelled it, or the row can't be understood; the
	// original's ignored rows have none.
	note  string
	times times // what they say about time from now on

	delayed bool  // the rows were; else they were waiting or manual
	retried bool  // the rows have ended, and are set back
	set     int64 // time_finished of such rows that have none, in seconds since 1970; else 0
}

// Verdicts gathers the events that decide answered for the locked rows: rows
// that get the same stand together. An event for another row, for a row that is not waiting,
// manual or delayed, or, of a retry, that has not ended as the event says, or of another kind is an
// error.
func Verdicts(rows []journal.Row, events []journal.Event) ([]Verdict, error) {
	locked := make(map[int64]journal.Row, len(rows))
	for _, row := range rows {
		locked[row.Job] = row
	}
	decisions := make(map[int64]verdict, len(events))
	var order []int64
	for _, e := range events {
		former, again := decisions[e.Job]
		decision, err := decide(locked, former, e)
		if err != nil {
			return nil, fmt.Errorf("claim job %d: %s%w", e.Job, e.Kind(), err)
		}
		if decisions[e.Job] = decision; !again {
			order = append(order, e.Job)
		}
	}
	return together(order, decisions), nil
}

// together joins the jobs whose rows get the same.
func together(order []int64, decisions map[int64]verdict) (verdicts []Verdict) {
	place := map[verdict]int{}
	for _, job := range order {
		at, known := place[decisions[job]]
		if !known {
			at = len(verdicts)
			place[decisions[job]] = at
			verdicts = append(verdicts, Verdict{verdict: decisions[job]})
		}
		verdicts[at].Jobs = append(verdicts[at].Jobs, job)
	}
	return verdicts
}

// decide is what an event makes of its row, after what the one before it of the same job made of
// it.
func decide(locked map[int64]journal.Row, former verdict, e journal.Event) (verdict, error) {
	row, ok := locked[e.Job]
	if !ok {
		return verdict{}, errors.New(", but it is not among the rows of this claim")
	}
	if payload, ok := e.Payload.(journal.Retried); ok {
		return retry(row, payload, e)
	}
	if !store.IsFree(row) {
		return verdict{}, fmt.Errorf(", but its row is %s: only waiting, manual and delayed rows are claimed", row.Status)
	}
	v := verdict{delayed: row.Status == journal.RowDelayed}
	switch payload := e.Payload.(type) {
	case journal.Accepted:
		v.status, v.token, v.times = journal.RowAccepted, payload.Token, claimed(row, payload.PlannedAt)
		return v, nil
	case journal.Ignored:
		v.status = journal.RowIgnored
		if payload.By != "" || payload.Told {
			v.note = payload.Reason
		}
		return v, nil
	case journal.Planned:
		if !v.delayed {
			return verdict{}, fmt.Errorf(", but its row is %s: only delayed rows are planned", row.Status)
		}
		v.status, v.times = journal.RowDelayed, dueAgain(payload.To)
		return v, nil
	case journal.Running:
		if former.status == journal.RowAccepted {
			former.status, former.start = journal.RowRunning, store.Seconds(e.Time)
			former.times.attempts = exactly(int64(payload.Attempt))
			return former, nil
		}
	}
	return verdict{}, errors.New(": a claim only accepts, plans and ignores, and starts what it accepted")
}

// hasEnded is the condition under which a row is retried.
const hasEnded = "status IN ('done','ignored')"

// retry is what a retry makes of its row. The time of its last end stays in the row until the next
// one, so that a worker whose journal knows an earlier end sees that the row was set back since; a
// row that never ended gets the time of the retry.
func retry(row journal.Row, payload journal.Retried, e journal.Event) (verdict, error) {
	ended := row.Status == journal.RowDone || row.Status == journal.RowIgnored
	back := payload.To == journal.RowWaiting || payload.To == journal.RowManual
	if !ended || !back || row.Status != payload.From || row.Finished != payload.Finished {
		return verdict{}, fmt.Errorf(" from %s to %s, but its row is %s", payload.From, payload.To, row.Status)
	}
	v := verdict{status: payload.To, retried: true, times: setBack(payload.To)}
	if row.Finished == 0 {
		v.set = store.Seconds(e.Time)
	}
	return v, nil
}

// Guard is the condition under which the rows of a claim are updated.
func (v verdict) Guard() string {
	switch {
	case v.retried:
		return hasEnded
	case v.delayed:
		return isDelayed
	}
	return isFree
}

// clear is what a retry sets beside the status: nothing is left of how the job ended but when.
func (v verdict) clear(s *Shape) []Assignment {
	list := []Assignment{s.word(s.Owner, ""), {"time_started", int64(0)}}
	if !strings.EqualFold(s.Owner, store.SigColumn) {
		list = append(list, s.word(store.SigColumn, ""))
	}
	for _, column := range []string{"result", "return_code", "stdout", "stderr"} {
		if value, possible := s.Columns[column].nothing(column); possible {
			list = append(list, Assignment{column, value})
		}
	}
	if v.set != 0 {
		list = append(list, Assignment{"time_finished", v.set})
	}
	return append(list, s.times(v.times)...)
}

// ProbeEach tries the updates of a claim row by row, and tells which rows are refused, and why. try makes
// one update, which is undone later. why is the server's objection; "" if the server takes the update.
func ProbeEach(verdicts []Verdict, try func(Verdict) (why string, err error)) (map[int64]string, error) {
	refused := map[int64]string{}
	for _, verdict := range verdicts {
		for _, id := range verdict.Jobs {
			single := verdict
			single.Jobs = []int64{id}
			why, err := try(single)
			if err != nil {
				return nil, err
			}
			if why != "" {
				refused[id] = why
			}
		}
	}
	return refused, nil
}

// Assignment is a column that an update sets.
type Assignment struct {
	column string
	value  any
}

// Write is what a change sets in its row. The worker's name stays in an owner column of its own
// when the run has ended.
func (s *Shape) Write(change store.Change, reduced bool) []Assignment {
	list := []Assignment{{"status", change.Status}}
	switch {
	case change.GivesBack():
		list = append(list, s.word(s.Owner, ""), Assignment{"time_started", int64(0)})
		return append(list, s.times(asBefore(change.Plan))...)
	case change.Status == journal.RowIgnored:
		_, stderr := s.Output(change.Done, reduced)
		list = append(list, s.word(s.Owner, ""), Assignment{"time_started", int64(0)}, Assignment{"stderr", stderr})
		return append(list, s.freeKey()...)
	case change.Status == journal.RowRunning:
		list = append(list, Assignment{"time_started", store.Seconds(change.Start)})
		return append(list, s.times(counted(change.Attempts))...)
	}
	if !change.Start.IsZero() {
		list = append(list, Assignment{"time_started", store.Seconds(change.Start)})
	}
	done := change.Done
	list = append(list,
		Assignment{"time_finished", store.Seconds(change.Finish)},
		Assignment{"result", done.Result},
		Assignment{"return_code", s.Columns["return_code"].code(done.Code)},
	)
	if !strings.EqualFold(s.Owner, store.SigColumn) {
		list = append(list, s.word(s.Owner, s.Worker))
	}
	stdout, stderr := s.Output(done, reduced)
	list = append(list, s.word(store.SigColumn, done.Signal))
	list = append(list, Assignment{"stdout", stdout}, Assignment{"stderr", stderr})
	if change.Status == journal.RowDelayed {
		return append(list, s.times(dueAgain(*done.Again))...)
	}
	return append(append(list, s.times(counted(change.Attempts))...), s.freeKey()...)
}

// Write is what a claim sets in its rows.
func (v verdict) Write(s *Shape) []Assignment {
	list := []Assignment{{"status", v.status}}
	if v.retried {
		return append(list, v.clear(s)...)
	}
	if v.token != "" {
		list = append(list, Assignment{s.Owner, v.token})
	}
	if v.note != "" {
		_, stderr := s.Output(&journal.Done{Note: v.note}, false)
		list = append(list, Assignment{"stderr", stderr})
	}
	if v.start != 0 {
		list = append(list, Assignment{"time_started", v.start})
	}
	list = append(list, s.times(v.times)...)
	if v.status == journal.RowIgnored {
		list = append(list, s.freeKey()...)
	}
	return list
}

// Set is what stands between SET and WHERE, with its arguments.
func Set(list []Assignment, quote func(string) string) (text string, args []any) {
	columns := make([]string, len(list))
	args = make([]any, len(list))
	for i, one := range list {
		columns[i], args[i] = quote(one.column)+" = ?", one.value
	}
	return strings.Join(columns, ", "), args
}

// code is a return code as the column holds it. Where a job has none, or one that does not fit, and the
// column takes no NULL, it must not read as success.
func (c Column) code(code *int) any {
	const failed, smallFailed = 255, 1
	switch {
	case code != nil && c.within(int64(*code)) == int64(*code):
		return int64(*code)
	case c.Nullable:
		return nil
	case c.within(failed) == failed:
		return int64(failed)
	}
	return int64(smallFailed)
}

// within is the nearest number that the column holds. A count that is cut is better than a row that can't
// be updated.
func (c Column) within(value int64) int64 {
	if c.Holds&Number == 0 {
		return value
	}
	return min(max(value, c.Least), c.Most)
}

// word is a short text as a column holds it: cut to its width, or nothing.
func (s *Shape) word(column, text string) Assignment {
	c := s.Columns[strings.ToLower(column)]
	if c.Words != nil && !slices.Contains(c.Words, strings.ToLower(text)) {
		text = ""
	}
	for c.Length > 0 && len(text) > c.Length {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	if text == "" && c.Nullable {
		return Assignment{column, nil}
	}
	return Assignment{column, text}
}

// nothing is the value of a column that says nothing: NULL where it takes that, else an empty text, or 0
// for a return code. A column of a few words that has none for nothing keeps what it says.
func (c Column) nothing(name string) (value any, possible bool) {
	switch {
	case c.Nullable:
		return nil, true
	case name == "return_code":
		return int64(0), true
	}
	return "", c.Holds&(Text|Bytes) != 0
}

// Written are the columns that jobd writes, sorted, in a table whose owner column has that name and
// whose optional columns are used so.
func Written(owner string, uses store.Uses) []string {
	names := []string{"status", "time_started", "time_finished", "result", "return_code", store.SigColumn, "stdout", "stderr"}
	if !strings.EqualFold(owner, store.SigColumn) {
		names = append(names, owner)
	}
	for _, name := range []string{store.ColumnRunAt, store.ColumnPlannedAt, store.ColumnAttempts, store.ColumnUniqueKey} {
		if uses.Has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// number is a value of an optional column. One that is not given leaves the column as it is.
type number struct {
	given bool
	value int64
}

// exactly is a value that is given.
func exactly(value int64) number { return number{true, value} }

// times are what an update sets of the optional columns with numbers, where they are jobd's.
type times struct{ runAt, plannedAt, attempts number }

// times is what they set.
func (s *Shape) times(t times) (list []Assignment) {
	for _, one := range []struct {
		column string
		number
	}{{store.ColumnRunAt, t.runAt}, {store.ColumnPlannedAt, t.plannedAt}, {store.ColumnAttempts, t.attempts}} {
		if one.given && s.Uses.Has(one.column) {
			list = append(list, Assignment{one.column, s.Columns[one.column].within(one.value)})
		}
	}
	return list
}

// asBefore is what a row said before its claim; nothing where that is not known.
func asBefore(plan *journal.Plan) times {
	if plan == nil {
		return times{}
	}
	return times{exactly(plan.RunAt), exactly(plan.PlannedAt), exactly(plan.Attempts)}
}

// dueAgain is what a row says that is due at another time.
func dueAgain(again journal.Again) times {
	return times{exactly(again.RunAt), exactly(again.PlannedAt), exactly(again.Attempts)}
}

// counted is how often a run was started; 0: that is not known.
func counted(attempts int64) times {
	return times{attempts: number{attempts > 0, attempts}}
}

// claimed is what a claim sets: the planned start of the run, where the row says another one.
func claimed(row journal.Row, plannedAt int64) times {
	if row.Plan == nil || plannedAt == 0 || plannedAt == row.Plan.PlannedAt {
		return times{}
	}
	return times{plannedAt: exactly(plannedAt)}
}

// setBack is what a retry sets: the next run is a new one, and of one that waits nothing is planned.
func setBack(status string) times {
	return times{number{status == journal.RowWaiting, 0}, exactly(0), exactly(0)}
}

// freeKey lets the application insert the next row with the key of one that has ended for good.
func (s *Shape) freeKey() []Assignment {
	if !s.Uses.Has(store.ColumnUniqueKey) {
		return nil
	}
	return []Assignment{{store.ColumnUniqueKey, nil}}
}
