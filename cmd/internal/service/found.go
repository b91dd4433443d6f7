package service

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"jobd/journal"
	"jobd/journal/index"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// Index is what is kept beside the journal to find jobs in: an index.Index.
type Index interface {
	Jobs(ctx context.Context, q index.Query) (jobs []index.Job, next index.Key, err error)
	Targets(ctx context.Context) ([]string, error)
	Rates(ctx context.Context, width, from int64, steps int, targets []string) (index.Counts, error)
	Standing(ctx context.Context) index.Standing
}

// errNoIndex says that there is none to ask.
const errNoIndex = jobnet.Refusal("this worker keeps no index of its journal (journal_index = no)")

// shortLag is how far an index may be behind without a word: it takes events in some times a second.
const shortLag = 2 * time.Second

// standing tells how far the index is.
func (s *Service) standing(ctx context.Context) (told api.IndexState) {
	now := s.Index.Standing(ctx)
	if told.Stopped = now.Stopped; now.Behind > shortLag {
		told.Behind = now.Behind.Milliseconds()
	}
	if now.Building < 100 {
		told.Building = &now.Building
	}
	return told
}

// unfound is what a client is told where the index does not answer.
func (s *Service) unfound(err error) error {
	switch {
	case errors.Is(err, index.ErrWords):
		return jobnet.Refusal(err.Error()).With(jobnet.CodeInvalid)
	case errors.Is(err, index.ErrNone):
		return jobnet.Refusal(err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return jobnet.Refusal("the search would take too long: add words or filters, or shorten the time")
	}
	s.Logger.Warn("the index of jobs did not answer", "error", err)
	return jobnet.Refusef("the index of jobs can't be read now: %v", err)
}

// had are the targets that a request is about: those that it names, or else, of somebody who has not all, those of
// the index that they have; nil: all.
func (s *Service) had(ctx context.Context, who *principal.Session, named []string) ([]string, error) {
	if named != nil || who == nil || who.All() {
		return named, nil
	}
	targets, err := s.Index.Targets(ctx)
	targets = slices.DeleteFunc(targets, func(target string) bool { return !who.Targets.Reach(target) })
	return append([]string{}, targets...), err
}

// Jobs looks for jobs in the index.
func (s *Service) Jobs(ctx context.Context, from Call, q api.JobsQuery) (told api.FoundJobs, err error) {
	if s.Index == nil {
		return told, errNoIndex
	}
	before, _ := api.ParseJobKey(q.Before) // which was read before
	wanted := index.Query{
		Status: journal.Status(q.Status), Result: q.Result, Codes: q.Codes, Text: q.Text,
		Since: fromMilli(q.Since), Until: fromMilli(q.Until), Before: index.Key(before), Most: q.Most, Failures: q.Failures,
	}
	var found []index.Job
	var next index.Key
	if wanted.Targets, err = s.had(ctx, from.Who, q.Targets); err == nil {
		found, next, err = s.Index.Jobs(ctx, wanted)
	}
	if err != nil {
		return told, s.unfound(err)
	}
	told.IndexState, told.Next, told.Jobs = s.standing(ctx), api.JobKey(next).String(), make([]api.FoundJob, len(found))
	for i, job := range found {
		told.Jobs[i] = api.FoundJob{
			Key: api.JobKey(job.Key).String(), Job: jobnet.Whole(job.ID), Target: job.Target, Status: string(job.Status), At: job.At / 1000,
			Manual: job.Manual, Attempt: job.Attempt, Executor: job.Executor, Claimed: milli(job.Claimed), Started: milli(job.Started),
			Ended: milli(job.Ended), Result: job.Result, Code: job.Code, Signal: job.Signal, Reason: job.Reason,
			CPU: job.CPU / 1000, Memory: job.Memory, Failure: job.Failure,
		}
	}
	return told, nil
}

// fromMilli is a time in milliseconds since 1970, and milli the other way; 0 is none.
func fromMilli(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(at)
}

func milli(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// spans are the steps of each span: how many seconds each has, and how many there are.
var spans = map[string]struct{ width, steps int64 }{api.Span15m: {15, 60}, api.Span6h: {60, 360}, api.Span7d: {3600, 168}}

// Rates tells how many jobs were started, ended and failed.
func (s *Service) Rates(ctx context.Context, from Call, q api.RatesQuery) (told api.RatesFound, err error) {
	if s.Index == nil {
		return told, errNoIndex
	}
	span, now := spans[q.Span], time.Now().Unix()
	told.Step, told.From = span.width, now-now%span.width-(span.steps-1)*span.width
	counts := func(targets []string) (api.Counts, error) {
		found, err := s.Index.Rates(ctx, told.Step, told.From, int(span.steps), targets)
		return api.Counts(found), err
	}
	targets, err := s.had(ctx, from.Who, q.Targets)
	if err == nil {
		told.All, err = counts(targets)
	}
	for _, target := range q.Targets {
		if q.Each && err == nil {
			if told.Targets == nil {
				told.Targets = map[string]api.Counts{}
			}
			told.Targets[target], err = counts([]string{target})
		}
	}
	if err != nil {
		return told, s.unfound(err)
	}
	told.IndexState = s.standing(ctx)
	return told, nil
}

// Rows lists rows that nobody has claimed.
func (s *Service) Rows(ctx context.Context, _ Call, q api.RowsQuery) (told api.UnclaimedRows, err error) {
	targets, err := s.ofTable(q.Targets)
	if err != nil {
		return told, err
	}
	before := int64(math.MaxInt64)
	if q.Before != nil {
		before = int64(*q.Before)
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	rows, err := s.Table.Free(ctx, q.Status, targets, before, q.Most)
	if err != nil {
		return told, s.unlisted(q.Status+" rows", err)
	}
	told.Rows, told.More = make([]api.UnclaimedRow, len(rows)), len(rows) == q.Most
	for i, row := range rows {
		told.Rows[i] = api.UnclaimedRow{
			Job: jobnet.Whole(row.Job), Target: row.Target, Status: row.Status, Created: row.Created,
			Finished: row.Finished, Result: row.Result, Code: row.Code, Signal: SignalOf(row.Signal),
		}
		if row.Plan != nil {
			told.Rows[i].RunAt = row.Plan.RunAt
		}
	}
	return told, nil
}
