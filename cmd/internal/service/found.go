package service

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/journal/index"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
)

// What is found: jobs that run, jobs in the index, rows of the table.

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

// Running lists what runs. What is sorted by is measured of all jobs before the list is cut.
func (s *Service) Running(_ context.Context, _ Call, q api.RunningQuery) (api.RunningJobs, error) {
	running := s.Worker.Running(q.Targets)
	answer := api.RunningJobs{Jobs: make([]api.RunningJob, len(running)), Total: len(running)}
	for i := range running {
		answer.Jobs[i] = s.runningJob(&running[i])
	}
	api.SortRunning(answer.Jobs, q.Sort, func(j *api.RunningJob) *api.RunningJob { return j })
	answer.Jobs = answer.Jobs[:min(len(answer.Jobs), q.Most)]
	return answer, nil
}

func (s *Service) runningJob(r *jobexec.JobStanding) api.RunningJob {
	j := api.RunningJob{
		Job: jobnet.Whole(r.ID), Target: r.Target, Manual: r.Manual, Attempt: r.Attempt, Since: millis(r.Began),
		PID: r.Started.Pid, Executor: r.Executor.Executor(), Address: r.Started.Address, Adopted: r.Adopted, Cancelled: r.Cancelled,
		MaxAttempts: s.mostAttempts(r.Target, r.Time.Plan), Planned: r.Time.PlannedAt, Deadline: millis(r.Time.Deadline),
		Recurs: r.Time.Recurs(),
	}
	if used := r.Usage; used != nil {
		cpu, ran := used.CPU.Milliseconds(), used.Ran.Milliseconds()
		j.Elapsed, j.CPU, j.Memory, j.Processes = &ran, &cpu, &used.Memory, used.Processes
	}
	return j
}

// Output gives a part of what a job has written: of one that is under way what the runner has, of
// one that has ended what the journal has.
func (s *Service) Output(ctx context.Context, caller Call, q api.OutputQuery) (api.JobOutput, error) {
	from := [2]int64{q.Stdout, q.Stderr}
	answer := api.JobOutput{Job: q.Job, Attempt: q.Attempt, State: api.OutputRunning, Running: true}
	now, found, err := s.Worker.Output(ctx, jobexec.Glance{Job: int64(q.Job), Attempt: q.Attempt, From: from, Most: q.Most})
	switch {
	case err != nil:
		return answer, jobnet.Refusef("job %d runs, but its output can't be shown: %v", q.Job, err)
	case found && !now.Started:
		answer.Attempt, answer.State = now.Attempt, api.OutputClaimed
		return answer, nil
	case found:
		answer.Attempt, answer.Adopted = now.Attempt, now.Adopted
		answer.Stdout, answer.Stderr = partOf(now.Written[0], from[0]), partOf(now.Written[1], from[1])
		return answer, nil
	}
	return s.endedOutput(ctx, caller, q, answer)
}

// endedOutput is the answer about a job that is not under way.
func (s *Service) endedOutput(ctx context.Context, caller Call, q api.OutputQuery, answer api.JobOutput) (api.JobOutput, error) {
	event, attempt, err := s.Process.Ended(ctx, int64(q.Job), caller.Who.Has())
	if err != nil {
		return answer, err
	}
	if answer.Running = false; event == nil || q.Attempt != 0 && q.Attempt != attempt {
		answer.State = api.OutputUnknown
		return answer, nil
	}
	done := event.Payload.(journal.Done)
	answer.Attempt, answer.State = attempt, api.OutputEnded
	answer.Stdout = partOf(jobexec.PartOf(done.Stdout, q.Stdout, q.Most), q.Stdout)
	answer.Stderr = partOf(jobexec.PartOf(done.Stderr, q.Stderr, q.Most), q.Stderr)
	answer.Done = &api.OutputEnd{
		Result: done.Result, Code: done.Code, Reason: done.Reason, Note: done.Note, Ended: done.EndedAt(event.Time).UnixMilli(),
	}
	if done.Signal != "" {
		answer.Done.Signal = &done.Signal
	}
	return answer, nil
}

// partOf is a part of a stream as clients are told, who wanted it from an offset on.
func partOf(p jobexec.Part, from int64) api.OutputPart {
	part := api.OutputPart{At: p.At, Bytes: p.Bytes, Size: p.Size}
	if from >= 0 && p.At > from {
		part.Skipped = p.At - from
	}
	return part
}

// Recycle has the processes replaced that are kept for the jobs of targets, one after the other. It
// does not wait for them.
func (s *Service) Recycle(_ context.Context, from Call, t api.Targets) (done api.Done, err error) {
	err = s.Worker.Recycle(t.Targets, "asked for by "+from.From)
	return done, s.judge(api.Recycle.Name, from, inOne(err))
}

// inOne is one refusal for several that are joined.
func inOne(err error) error {
	var refused jobexec.RefusedError
	if _, joined := err.(interface{ Unwrap() []error }); !joined || !errors.As(err, &refused) {
		return err
	}
	return jobexec.RefusedError(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// executors are what clients are told of those that run jobs otherwise than in a process for each.
func executors(of []jobexec.PoolStanding) (all []api.ExecutorStatus) {
	for _, s := range of {
		all = append(all, api.ExecutorStatus{
			Target: s.Target, Mode: string(s.Mode), Slots: s.Slots, Sent: s.Address,
			Processes: s.Processes, Booting: s.Booting, Ready: s.Ready, Busy: s.Busy,
			Boots: s.Boots, Jobs: s.Jobs, Recycled: s.Recycled, Unready: s.Unready, Failing: s.Failing, Since: s.Since,
			Stranger: s.Stranger, StrangerAt: s.StrangerAt, Old: s.Old,
		})
	}
	return all
}
