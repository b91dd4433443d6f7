package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/journal"
	jobnet "jobd/net"
)

// What failed lists where nobody says otherwise.
const (
	failedSince = 24 * time.Hour
	failedMost  = 20
)

func (p *program) failed() *cmd {
	w := failedWish{since: timeFlag{p: p}, most: -1, code: -1, ignored: true}
	group := false
	c := command("failed [--since TIME] [--target T] [-n N] [--group] [--retrying]", "jobs that failed, the newest first, with the last line of what they wrote to stderr", func(ctx context.Context, args []string) error {
		return p.read(ctx, nil, func(ctx context.Context, j *operator.Journals) error {
			if group {
				return p.printGroups(ctx, j, w.grouped(p.now()))
			}
			return p.printFailed(ctx, j, w.listed(p.now()))
		})
	})
	w.flags(c)
	c.FlagSet.Var(countFlag{n: &w.most, most: mostFailures}, "n", "only the newest N; 0: all. Without -n and --since: 20")
	c.FlagSet.BoolVar(&group, "group", false, "count them by exit code and that line")
	c.FlagSet.BoolVar(&w.retrying, "retrying", false, "also those whose jobs are tried again by themselves")
	return c
}

// failedWish is which failures are wanted.
type failedWish struct {
	since  timeFlag
	target string
	most   int // 0: all; -1: as many as are usual
	code   int // -1: any

	retrying bool // also jobs that are tried again by themselves
	ignored  bool // also rows that were never run, because they say what can't be
}

// flags registers the flags that all commands about failures have.
func (w *failedWish) flags(c *cmd) {
	c.FlagSet.Var(&w.since, "since", "only those that ended from this time on: 2026-11-20 14:00, 14:00, 2h (ago), or unix time in seconds; without it, the last 24 h")
	c.FlagSet.StringVar(&w.target, "target", "", "only jobs of this target")
}

// listed is the wish with what is usual for a list.
func (w failedWish) listed(now time.Time) failedWish {
	if w.most < 0 {
		if w.most = 0; w.since.at.IsZero() {
			w.most = failedMost
		}
	}
	return w.grouped(now)
}

// grouped is the wish with what is usual where all are wanted.
func (w failedWish) grouped(now time.Time) failedWish {
	w.most = max(w.most, 0)
	if w.since.at.IsZero() {
		w.since.at = now.Add(-failedSince)
	}
	return w
}

// printFailed prints failures, the newest first.
func (p *program) printFailed(ctx context.Context, j *operator.Journals, w failedWish) error {
	list, err := p.collect(ctx, j, w)
	if err != nil {
		return err
	}
	found := p.report(j.Named(), "no job has failed"+w.when(p), "JOB", "ENDED", "TARGET", "EXIT", "ROW", "STDERR")
	found.table.elastic = "STDERR"
	for _, f := range list.all {
		err := found.add(f.worker, f.form(), bad, f.job, p.clock(f.ended), f.target, f.exit(), p.rowText(f), f.line)
		if err != nil {
			return found.end(err)
		}
	}
	if err := found.end(list.unchecked); err != nil {
		return err
	}
	if len(list.all) == 0 {
		p.noteUnserved(ctx, w.target)
	}
	if list.more && !p.json() {
		return p.sayNone(fmt.Sprintf("the newest %d%s; -n N shows more, --group counts them", len(list.all), w.when(p)))
	}
	return nil
}

// when says from when on jobs are looked at.
func (w failedWish) when(p *program) string { return " since " + p.clock(w.since.at) }

// failureForm is a failure as JSON. Times are in unix milliseconds.
type failureForm struct {
	Worker string       `json:"worker,omitempty"`
	Job    jobnet.Whole `json:"job"`
	Target string       `json:"target,omitempty"`
	Ended  int64        `json:"ended"`
	Code   *int         `json:"code,omitempty"`
	Signal string       `json:"signal,omitempty"`
	Reason string       `json:"reason,omitempty"` // why, where the process itself does not tell
	Line   string       `json:"line,omitempty"`   // the last one of stderr
	Row    string       `json:"row,omitempty"`    // "deleted", "not checked", "retry", "recurs" or "ignored"; "": it says so, too

	Again    int64 `json:"again,omitempty"`    // when the row is due again, unix milliseconds
	Attempts int64 `json:"attempts,omitempty"` // starts of the run so far, where the row tells
	Timeout  int64 `json:"timeout,omitempty"`  // it was ended because it ran longer than so many seconds
}

func (f *failure) form() failureForm {
	return failureForm{
		f.worker, jobnet.Whole(f.job), f.target, f.ended.UnixMilli(), f.done.Code, f.done.Signal, f.done.Reason, f.line, f.row,
		f.again * 1000, f.attempts, f.done.Timeout,
	}
}

// rowText is what is to be known of the row, and when it is due again.
func (p *program) rowText(f *failure) string {
	if f.again == 0 {
		return f.row
	}
	return f.row + " " + p.seconds(f.again)
}

// exit is how the process ended, in a word.
func (f *failure) exit() string {
	switch {
	case f.ignored:
		return "not run"
	case f.done.Timeout > 0:
		return "timeout"
	case journal.StoppedIn(f.done.Reason) != "":
		return "stopped"
	case f.done.Signal != "":
		return f.done.Signal
	case f.done.Code != nil:
		return strconv.Itoa(*f.done.Code)
	}
	return unknownEnd
}

// unknownEnd is how a process ended of which nobody saw the end.
const unknownEnd = "unknown"

// how is the same in words.
func (f *failure) how() string {
	if f.exit() == unknownEnd {
		return "outcome unknown"
	}
	return "failed with " + f.exit()
}

// errUnchecked says what it means that the table could not be read.
func errUnchecked(err error) error {
	return fmt.Errorf("whether jobs were retried, cancelled or deleted since could not be checked: %w", err)
}

// errTooMany says that not all failures can be looked at together.
var errTooMany = errors.New("there are more failures than can be looked at together: narrow it with --since or --target")

// mostFailures is how many ends are looked at together.
const mostFailures = 100_000

// failure is a job whose last end was a failure, as far as journals and table say.
type failure struct {
	job     int64
	worker  string
	from    *operator.Worker // that ran it
	ended   time.Time
	done    journal.Done
	target  string // "" where it is not known
	line    string
	ignored bool   // it was never run: its row says what can't be
	row     string // what is to be known of the row: one of the words below, or "" where it says the same

	again    int64 // when the row is due again, unix seconds; 0: it does not come back, or runs
	attempts int64 // starts of the run so far, where the row tells
}

// What is told of a failure's row.
const (
	rowDeleted   = "deleted"
	rowUnchecked = "not checked"
	rowRetry     = "retry"  // it is tried again by itself
	rowRecurs    = "recurs" // this run has failed, and the next one comes
	rowIgnored   = "ignored"
)

// failureList is what was found.
type failureList struct {
	all       []*failure // the newest first
	more      bool       // there are more, or may be
	unchecked error      // the table could not be read
}

// collect finds failures: ends in the journals, of which the rows say that nothing came after them.
// As many ends are read as it takes.
func (p *program) collect(ctx context.Context, j *operator.Journals, w failedWish) (found failureList, err error) {
	look := mostFailures
	if w.most > 0 {
		look = min(max(4*w.most, 100), mostFailures)
	}
	for {
		ends, n, err := p.failedEnds(ctx, j, w, look)
		if err != nil {
			return found, err
		}
		found.all, found.unchecked = stillFailed(ctx, j, ends)
		if w.ignored && w.target != "" {
			found.all = slices.DeleteFunc(found.all, func(f *failure) bool { return f.ignored && f.target != "" && f.target != w.target })
		}
		if !w.retrying {
			found.all = slices.DeleteFunc(found.all, func(f *failure) bool { return f.row == rowRetry })
		}
		enough := w.most > 0 && len(found.all) >= w.most
		if n < look || enough || look == mostFailures {
			found.more = n >= look || w.most > 0 && len(found.all) > w.most
			if w.most == 0 && n >= look {
				return found, errTooMany
			}
			if w.most > 0 {
				found.all = found.all[:min(len(found.all), w.most)]
			}
			nameTargets(ctx, found.all)
			return found, nil
		}
		look = min(4*look, mostFailures)
	}
}

// failedEnds reads the newest failed ends, of each job the last; the newest first. Ends of
// jobs that somebody had cancelled are none. It tells how many were read.
func (p *program) failedEnds(ctx context.Context, j *operator.Journals, w failedWish, most int) (ends []*failure, n int, err error) {
	q := history.Query{
		Kinds: []journal.Kind{journal.KindDone}, Result: "fail", LastLine: true,
		Target: w.target, Since: w.since.at, Last: most,
	}
	newest := map[int64]*failure{}
	g := p.progress("failed ends read")
	defer g.end()
	for e, err := range j.Events(ctx, q) {
		if err != nil {
			return nil, 0, err
		}
		n++
		g.at(uint64(n))
		done, _ := e.Item.Payload.(journal.Done)
		f := &failure{
			job: e.Item.Job, worker: e.Source.Worker(), from: e.Source.Link(), ended: done.EndedAt(e.Item.Time), done: done,
			line: clean(string(done.Stderr.Kept)),
		}
		if f.line == "" {
			f.line = clean(cmp.Or(done.Note, done.Reason))
		}
		f.done.Stderr.Kept = nil
		if before := newest[f.job]; before == nil || !f.ended.Before(before.ended) {
			newest[f.job] = f
		}
	}
	if w.ignored {
		m, err := p.neverRun(ctx, j, w, most, newest)
		if err != nil {
			return nil, 0, err
		}
		n = max(n, m)
	}
	for _, f := range newest {
		if !f.done.WasCancelled() && (w.code < 0 || f.done.Code != nil && *f.done.Code == w.code) {
			ends = append(ends, f)
		}
	}
	slices.SortFunc(ends, func(a, b *failure) int { return cmp.Or(b.ended.Compare(a.ended), cmp.Compare(b.job, a.job)) })
	return ends, n, nil
}

// stillFailed leaves out the jobs whose rows say that something came after the end. Where the table
// can't be read, all are left, and the error says so.
func stillFailed(ctx context.Context, j *operator.Journals, ends []*failure) (still []*failure, unchecked error) {
	ids := make([]int64, len(ends))
	for i, f := range ends {
		ids[i] = f.job
	}
	rows, err := operator.Rows(ctx, j.Workers, ids)
	if err != nil {
		unchecked = errUnchecked(err)
	}
	for _, f := range ends {
		row, there := rows[f.job]
		switch {
		case err != nil && !there && f.done.Again != nil && f.done.Again.Why == journal.AgainRetry:
			f.row, f.again = rowRetry, f.done.Again.RunAt
		case err != nil && !there:
			f.row = rowUnchecked
		case !there:
			f.row = rowDeleted
		case !f.isIn(row):
			continue
		case f.ignored:
			f.target, f.row = row.Target, rowIgnored
		default:
			f.target = row.Target
			f.comesBack(row)
		}
		still = append(still, f)
	}
	return still, unchecked
}

// isIn tells whether a row shows this end, or is owed it still: it bears the claim.
func (f *failure) isIn(row history.Row) bool {
	if f.ignored {
		return row.Status == journal.RowIgnored
	}
	switch row.Status {
	case journal.RowDone:
		return row.Result == f.done.Result && row.Finished == f.ended.Unix()
	case journal.RowAccepted, journal.RowRunning:
		if f.done.Token != "" && row.Owner == f.done.Token {
			return true
		}
	case journal.RowWaiting, journal.RowDelayed:
	default:
		return false
	}
	return f.done.Again != nil && row.Result == f.done.Result && row.Finished == f.ended.Unix() // what the next end overwrites
}

// comesBack notes that the row of a failure is tried again, or recurs.
func (f *failure) comesBack(row history.Row) {
	if row.Plan != nil {
		f.attempts = row.Plan.Attempts
	}
	if f.done.Again == nil || row.Status == journal.RowDone {
		return
	}
	if f.row = rowRecurs; f.done.Again.Why == journal.AgainRetry {
		f.row = rowRetry
	}
	if row.Status == journal.RowDelayed && row.Plan != nil {
		f.again = row.Plan.RunAt
	}
}

// mostNamed is how many jobs without a row get their target from a journal, one by one.
const mostNamed = 100

// nameTargets finds the targets of jobs whose rows don't tell them.
func nameTargets(ctx context.Context, list []*failure) {
	named := 0
	for _, f := range list {
		if f.target != "" || named == mostNamed {
			continue
		}
		named++
		for e, err := range f.from.Events(ctx, history.Query{Job: f.job, Kinds: []journal.Kind{journal.KindAccepted}, Last: 1}) {
			if claim, ok := e.Payload.(journal.Accepted); ok && err == nil {
				f.target = claim.Target
			}
		}
	}
}

// failureGroup is failures that ended alike.
type failureGroup struct {
	exit, line  string
	count       int
	first, last time.Time
	example     *failure // the newest
}

// numbers are those of a line.
var numbers = regexp.MustCompile(`\d+`)

// alike is the line without what differs from job to job: its own id; and where jobd itself says why the
// outcome is unknown, every number, which are those of jobs and processes.
func (f *failure) alike() string {
	id := strconv.FormatInt(f.job, 10)
	unknown := strings.HasPrefix(f.done.Reason, journal.UnknownOutcome)
	return numbers.ReplaceAllStringFunc(f.line, func(number string) string {
		if unknown || number == id {
			return "#"
		}
		return number
	})
}

// groupsOf counts failures by exit code and last line of stderr, those of which there are most first.
// The line is that of the newest.
func groupsOf(all []*failure) []*failureGroup {
	type key struct{ exit, line string }
	groups := map[key]*failureGroup{}
	var list []*failureGroup
	for _, f := range all { // the newest first
		k := key{f.exit(), f.alike()}
		g := groups[k]
		if g == nil {
			g = &failureGroup{exit: k.exit, line: f.line, last: f.ended, example: f}
			groups[k] = g
			list = append(list, g)
		}
		g.count++
		g.first = f.ended
	}
	slices.SortStableFunc(list, func(a, b *failureGroup) int { return cmp.Or(b.count-a.count, b.last.Compare(a.last)) })
	return list
}

// printGroups prints how many jobs failed alike.
func (p *program) printGroups(ctx context.Context, j *operator.Journals, w failedWish) error {
	list, err := p.collect(ctx, j, w)
	if err != nil {
		return err
	}
	found := p.report(false, "no job has failed"+w.when(p), "COUNT", "EXIT", "FIRST", "LAST", "JOB", "STDERR")
	found.table.elastic = "STDERR"
	for _, g := range groupsOf(list.all) {
		form := struct {
			Count  int          `json:"count"`
			Code   *int         `json:"code,omitempty"`
			Signal string       `json:"signal,omitempty"`
			Line   string       `json:"line,omitempty"`
			First  int64        `json:"first"`
			Last   int64        `json:"last"`
			Job    jobnet.Whole `json:"job"` // the newest of them
			Worker string       `json:"worker,omitempty"`
		}{
			g.count, g.example.done.Code, g.example.done.Signal, g.line, g.first.UnixMilli(), g.last.UnixMilli(),
			jobnet.Whole(g.example.job), g.example.worker,
		}
		if err := found.add("", form, bad, g.count, g.exit, p.clock(g.first), p.clock(g.last), g.example.job, g.line); err != nil {
			return found.end(err)
		}
	}
	if len(list.all) == 0 {
		p.noteUnserved(ctx, w.target)
	}
	if err := found.end(list.unchecked); err != nil {
		return err
	}
	if list.more && !p.json() {
		return p.sayNone(fmt.Sprintf("of the newest %d%s", len(list.all), w.when(p)))
	}
	return nil
}

// neverRun adds rows that were ignored because they say what can't be, of each the newest such event
// where no failed end is newer. Those that somebody cancelled, or ran by hand though they waited, are
// not among them: whoever did it knows. It tells how many events were read. Such an event names no
// target: the rows tell that.
func (p *program) neverRun(ctx context.Context, j *operator.Journals, w failedWish, most int, newest map[int64]*failure) (n int, err error) {
	q := history.Query{Kinds: []journal.Kind{journal.KindIgnored}, Since: w.since.at, Last: most}
	for e, err := range j.Events(ctx, q) {
		if err != nil {
			return 0, err
		}
		n++
		ignored, _ := e.Item.Payload.(journal.Ignored)
		if !ignored.Told {
			continue
		}
		f := &failure{
			job: e.Item.Job, worker: e.Source.Worker(), from: e.Source.Link(), ended: e.Item.Time, ignored: true,
			done: journal.Done{Reason: ignored.Reason}, line: clean(ignored.Reason),
		}
		if before := newest[f.job]; before == nil || !f.ended.Before(before.ended) {
			newest[f.job] = f
		}
	}
	return n, nil
}
