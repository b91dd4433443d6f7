package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// FailedQuery is which failures are wanted.
type FailedQuery struct {
	Since  time.Time
	Target string // "": all
	Most   int    // the newest; 0: all
	Code   *int   // nil: any

	Retrying bool // also jobs that are tried again by themselves
	Newest   bool // also what ended just now: indexes are a moment behind
}

// Failure is a job whose last end was a failure, as far as journals and table say. Times are in unix
// milliseconds.
type Failure struct {
	Worker string       `json:"worker,omitempty"`
	Job    jobnet.Whole `json:"job"`
	Target string       `json:"target,omitempty"` // "" where it is not known
	Ended  int64        `json:"ended"`
	Code   *int         `json:"code,omitempty"`
	Signal string       `json:"signal,omitempty"`
	Reason string       `json:"reason,omitempty"` // why, where the process itself does not tell
	Line   string       `json:"line,omitempty"`   // the last one of stderr
	Row    string       `json:"row,omitempty"`    // one of the words below; "": it says so, too

	Again    int64 `json:"again,omitempty"`    // when the row is due again; 0: it does not come back, or runs
	Attempts int64 `json:"attempts,omitempty"` // starts of the run so far, where the row tells
	Timeout  int64 `json:"timeout,omitempty"`  // it was ended because it ran longer than so many seconds

	At time.Time `json:"-"` // when it ended, to the microsecond

	from *Worker // that ran it
	done journal.Done
}

// What is told of a failure's row.
const (
	rowDeleted   = "deleted"
	rowUnchecked = "not checked"
	rowRetry     = "retry"  // it is tried again by itself
	rowRecurs    = "recurs" // this run has failed, and the next one comes
)

// unknownEnd is how a process ended of which nobody saw the end.
const unknownEnd = "unknown"

// Exit is how the process ended, in a word.
func (f *Failure) Exit() string {
	switch {
	case f.Timeout > 0:
		return "timeout"
	case journal.StoppedIn(f.Reason) != "":
		return "stopped"
	case f.Signal != "":
		return f.Signal
	case f.Code != nil:
		return strconv.Itoa(*f.Code)
	}
	return unknownEnd
}

// how is the same in words.
func (f *Failure) how() string {
	if f.Exit() == unknownEnd {
		return "outcome unknown"
	}
	return "failed with " + f.Exit()
}

// Failures are those that were found.
type Failures struct {
	All       []*Failure // the newest first
	More      bool       // there are more, or may be
	Unchecked error      // the table could not be read
}

// errTooMany says that not all failures can be looked at together.
var errTooMany = errors.New("too many failures to look at together: narrow the list with --since or --target")

// MostFailures is how many ends are looked at together.
const MostFailures = 100_000

// FindFailed finds failures: ends in the journals, of which the rows say that nothing came after them. As
// many ends are read as it takes.
func (j *Journals) FindFailed(ctx context.Context, q FailedQuery) (found Failures, err error) {
	most := MostFailures
	if j.Look > 0 { // those that have been retried since are passed over, but not without end
		most = min(most, 4*(q.Most+1))
	}
	ends, n, err := j.indexedEnds(ctx, q, q.Most+1)
	look, find := q.Most+1, j.indexedEnds
	if err != nil { // there is no index, or not yet
		look, find = MostFailures, j.failedEnds
		if q.Most > 0 {
			look = min(max(4*q.Most, 100), MostFailures)
		}
		ends, n, err = find(ctx, q, look)
	}
	for ; err == nil; ends, n, err = find(ctx, q, look) {
		found.All, found.Unchecked = j.stillFailed(ctx, ends)
		found.All = slices.DeleteFunc(found.All, func(f *Failure) bool { return !q.Retrying && f.Row == rowRetry })
		enough := q.Most > 0 && len(found.All) >= q.Most
		if n < look || enough || look >= most {
			found.More = n >= look || q.Most > 0 && len(found.All) > q.Most
			if q.Most == 0 && n >= look {
				return found, errTooMany
			}
			if q.Most > 0 {
				found.All = found.All[:min(len(found.All), q.Most)]
			}
			nameTargets(ctx, found.All)
			return found, nil
		}
		look = min(4*look, most)
	}
	return found, err
}

// failedEnds reads the newest failed ends, of each job the last; the newest first. Ends of
// jobs that somebody had cancelled are none. It tells how many were read.
func (j *Journals) failedEnds(ctx context.Context, q FailedQuery, most int) (ends []*Failure, n int, err error) {
	newest := newestEnds{}
	failed := history.Query{Kinds: []journal.Kind{journal.KindDone}, Result: "fail", LastLine: true, Target: q.Target, Since: q.Since, Last: most}
	for e, err := range j.Events(ctx, failed) {
		if err != nil {
			return nil, n, err
		}
		n++
		done, _ := e.Item.Payload.(journal.Done)
		line := string(done.Stderr.Kept)
		done.Stderr.Kept = nil
		f := failureOf(done, line)
		f.Worker, f.from = e.Source.Worker(), e.Source.Link()
		newest.add(f, jobnet.Whole(e.Item.Job), done.EndedAt(e.Item.Time))
	}
	return newest.of(q), n, nil
}

// failureOf is a failure by how a job ended, and the last line that it wrote to stderr.
func failureOf(done journal.Done, line string) *Failure {
	line = cmp.Or(screen.Clean(line), screen.Clean(cmp.Or(done.Note, done.Reason)))
	return &Failure{Code: done.Code, Signal: done.Signal, Reason: done.Reason, Line: line, Timeout: done.Timeout, done: done}
}

// newestEnds are failed ends, of each job the last.
type newestEnds map[jobnet.Whole]*Failure

func (all newestEnds) add(f *Failure, job jobnet.Whole, at time.Time) {
	f.Job, f.At, f.Ended = job, at, at.UnixMilli()
	if before := all[job]; before == nil || !f.At.Before(before.At) {
		all[job] = f
	}
}

// of are those that a query wants, the newest first.
func (all newestEnds) of(q FailedQuery) (ends []*Failure) {
	for _, f := range all {
		if !f.done.WasCancelled() && (q.Code == nil || f.Code != nil && *f.Code == *q.Code) {
			ends = append(ends, f)
		}
	}
	slices.SortFunc(ends, func(a, b *Failure) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Job, a.Job)) })
	return ends
}

// errNoIndex says that not all failures are in an index.
var errNoIndex = errors.New("a worker's index is incomplete")

// indexedEnds is failedEnds by the workers' indexes.
func (j *Journals) indexedEnds(ctx context.Context, q FailedQuery, most int) (ends []*Failure, n int, err error) {
	if len(j.Workers) < len(j.Sources) || q.Most == 0 || q.Newest {
		return nil, 0, errNoIndex
	}
	newest, query := newestEnds{}, api.JobsQuery{Since: q.Since.UnixMilli(), Failures: true}
	if q.Target != "" {
		query.Targets = []string{q.Target}
	}
	var upTo time.Time // before it not all workers were read
	for _, w := range j.Workers {
		query.Before = ""
		for here := 0; here < most; {
			var page api.FoundJobs
			if err := w.Ask(ctx, api.Jobs.Name, query, &page); err != nil {
				return nil, 0, err
			}
			if page.IndexState != (api.IndexState{}) {
				return nil, 0, errNoIndex
			}
			for _, job := range page.Jobs {
				var end struct {
					journal.Done
					Line string `json:"line"`
				}
				if job.Failure == nil { // an older worker gives all jobs
					return nil, 0, errNoIndex
				}
				key, err := api.ParseJobKey(job.Key)
				if err == nil {
					err = json.Unmarshal(job.Failure, &end)
				}
				if err != nil {
					return nil, 0, err
				}
				f := failureOf(end.Done, end.Line)
				f.Target, f.Worker, f.from = job.Target, w.Name, w
				newest.add(f, job.Job, end.EndedAt(time.UnixMicro(key.At)))
			}
			if here, n = here+len(page.Jobs), n+len(page.Jobs); page.Next == "" {
				break
			}
			query.Before = page.Next
			if key, err := api.ParseJobKey(page.Next); err == nil && here >= most && time.UnixMicro(key.At).After(upTo) {
				upTo = time.UnixMicro(key.At)
			}
		}
	}
	return slices.DeleteFunc(newest.of(q), func(f *Failure) bool { return f.At.Before(upTo) }), n, nil
}

// stillFailed leaves out the jobs whose rows say that something came after the end. Where the table
// can't be read, all are left, and the error says so.
func (j *Journals) stillFailed(ctx context.Context, ends []*Failure) (still []*Failure, unchecked error) {
	ids := make([]jobnet.Whole, len(ends))
	for i, f := range ends {
		ids[i] = f.Job
	}
	rows, err := Rows(ctx, j.Workers, ids)
	if err != nil {
		unchecked = fmt.Errorf("could not check whether jobs were retried, cancelled or deleted since: %w", err)
	}
	for _, f := range ends {
		row, there := rows[f.Job]
		switch {
		case err != nil && !there && f.done.Again != nil && f.done.Again.Why == journal.AgainRetry:
			f.Row, f.Again = rowRetry, f.done.Again.RunAt*1000
		case err != nil && !there:
			f.Row = rowUnchecked
		case !there:
			f.Row = rowDeleted
		case !f.isIn(row):
			continue
		default:
			f.Target = row.Target
			f.comesBack(row)
		}
		still = append(still, f)
	}
	return still, unchecked
}

// isIn tells whether a row shows this end, or is owed it still: it bears the claim.
func (f *Failure) isIn(row history.Row) bool {
	switch row.Status {
	case journal.RowDone:
		return row.Result == f.done.Result && row.Finished == f.At.Unix()
	case journal.RowAccepted, journal.RowRunning:
		if f.done.Token != "" && row.Owner == f.done.Token {
			return true
		}
	case journal.RowWaiting, journal.RowDelayed:
	default:
		return false
	}
	return f.done.Again != nil && row.Result == f.done.Result && row.Finished == f.At.Unix() // what the next end overwrites
}

// comesBack notes that the row of a failure is tried again, or recurs.
func (f *Failure) comesBack(row history.Row) {
	if row.Plan != nil {
		f.Attempts = row.Plan.Attempts
	}
	if f.done.Again == nil || row.Status == journal.RowDone {
		return
	}
	if f.Row = rowRecurs; f.done.Again.Why == journal.AgainRetry {
		f.Row = rowRetry
	}
	if row.Status == journal.RowDelayed && row.Plan != nil {
		f.Again = row.Plan.RunAt * 1000
	}
}

// mostNamed is how many jobs without a row get their target from a journal, one by one.
const mostNamed = 100

// nameTargets finds the targets of jobs whose rows don't tell them.
func nameTargets(ctx context.Context, list []*Failure) {
	named := 0
	for _, f := range list {
		if f.Target != "" || named == mostNamed {
			continue
		}
		named++
		for e, err := range f.from.Events(ctx, history.Query{Job: f.Job, Kinds: []journal.Kind{journal.KindAccepted}, Last: 1}) {
			if claim, ok := e.Payload.(journal.Accepted); ok && err == nil {
				f.Target = claim.Target
			}
		}
	}
}

// FailureGroup is failures that ended alike. The line is that of the newest.
type FailureGroup struct {
	Count  int          `json:"count"`
	Code   *int         `json:"code,omitempty"`
	Signal string       `json:"signal,omitempty"`
	Line   string       `json:"line,omitempty"`
	First  int64        `json:"first"` // unix milliseconds
	Last   int64        `json:"last"`
	Job    jobnet.Whole `json:"job"` // the newest of them
	Worker string       `json:"worker,omitempty"`

	Members []*Failure `json:"-"` // the newest first
}

// Groups counts failures by exit code and last line of stderr, those of which there are most first.
func (f Failures) Groups() (list []*FailureGroup) {
	groups := map[[2]string]*FailureGroup{}
	for _, one := range f.All {
		alike := [2]string{one.Exit(), one.alike()}
		g := groups[alike]
		if g == nil {
			g = &FailureGroup{Code: one.Code, Signal: one.Signal, Line: one.Line, Last: one.Ended, Job: one.Job, Worker: one.Worker}
			groups[alike] = g
			list = append(list, g)
		}
		g.Count++
		g.First = one.Ended
		g.Members = append(g.Members, one)
	}
	slices.SortStableFunc(list, func(a, b *FailureGroup) int {
		return cmp.Or(b.Count-a.Count, b.Members[0].At.Compare(a.Members[0].At))
	})
	return list
}

// numbers are those of a line.
var numbers = regexp.MustCompile(`\d+`)

// alike is the line without what differs from job to job: its own id; and where jobd itself says why the
// outcome is unknown, every number, which are those of jobs and processes.
func (f *Failure) alike() string {
	id := strconv.FormatInt(int64(f.Job), 10)
	unknown := strings.HasPrefix(f.Reason, journal.UnknownOutcome)
	return numbers.ReplaceAllStringFunc(f.Line, func(number string) string {
		if unknown || number == id {
			return "#"
		}
		return number
	})
}
