package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"jobd/cmd/internal/refusals"
	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/net/principal"
	"jobd/store"
)

// The service, and what changes the worker or its jobs.

// Worker is what carries out what clients ask for: an exec.Worker. What it refuses is an
// exec.RefusedError, which clients are told as it is.
type Worker interface {
	Poll(targets []string) error
	Pause(targets []string, by string) error
	Continue(targets []string, by string) error
	Recycle(targets []string, why string) error
	AddTarget(target string, concurrency int, by string) error
	SetConcurrency(target string, concurrency int, by string) error
	RemoveTarget(target, by string) error
	RunManual(ctx context.Context, ids []int64, by string) (jobexec.Answer[jobexec.Result], error)
	Plan(ctx context.Context, wish jobexec.PlanWish) (jobexec.Answer[int64], error)
	SetBack(ctx context.Context, wish jobexec.RetryWish) (jobexec.Answer[string], error)
	SendSignal(signals map[int64]int, by string) map[int64]bool
	Cancel(ctx context.Context, wish jobexec.CancelWish) (jobexec.Cancelled, error)
	Status() jobexec.Status
	Running(targets []string) []jobexec.JobStanding
	JobsOf(target string, waiting bool) []int64
	Output(ctx context.Context, g jobexec.Glance) (out jobexec.JobOutput, found bool, err error)
	HandOver()
	Note(payload journal.Payload) error
	Explain(ids []int64) map[int64]jobexec.Explanation
	ExplainTargets(names []string) map[string]jobexec.TargetStanding
	TermsOf(target string) (terms jobexec.Terms, zone *time.Location)
	ServerTime() time.Time
	LookAtTable()
}

// Config is what a service is made of.
type Config struct {
	Worker   Worker
	Logger   *slog.Logger
	Process  Process
	Refusals *refusals.Requests // of the worker

	Table        Table
	Journal      *replay.Reader                // of the worker
	Index        Index                         // nil: there is none
	Owed         func() []store.QuarantinedRow // rows that the mirror can't bring up to date for now
	PollInterval time.Duration                 // at which the worker looks for jobs unasked; 0: never
}

// Process is what a service asks the process that it is in.
type Process interface {
	// Describe adds to a status what the worker itself does not know.
	Describe(worker jobexec.Status, status *api.WorkerStatus)
	// Database tells whether the table can be reached, by what was last heard of it.
	Database() api.Standing
	// Follow looks whether a start would succeed now, and gives the process that would follow.
	Follow(ctx context.Context) (api.Successor, error)
	// Ended gives how a job ended last, with its output, and the number of the attempt that did; nil
	// where the journal knows no end of a run of a target that the caller has.
	Ended(ctx context.Context, job int64, has func(target string) bool) (done *journal.Event, attempt int, err error)
	// Reload has the process read its configuration again, as by wants. Where it can't be taken over
	// the process journals that itself.
	Reload(by string) (api.Reloaded, error)
	// Stopping tells whether the process stops for good.
	Stopping() bool
	// Restart stops this process and has the next start follow, which by wants. It returns at once.
	Restart(by string)
}

// Call is who asks for something, and in which words.
type Call struct {
	From  string // as the journal names it
	Who   *principal.Session
	About func() string // what is to be changed, as the caller put it; asked for only where that is refused
}

// Service is what a worker does for those who ask it. Its methods are safe for concurrent use.
type Service struct {
	Config
	restarting atomic.Bool   // a restart is under way
	looking    chan struct{} // holds one for each look at rows under way
}

// New makes a service.
func New(config Config) *Service {
	return &Service{Config: config, looking: make(chan struct{}, mostLooking)}
}

// Poll has the worker look for jobs.
func (s *Service) Poll(_ context.Context, _ Call, t api.Targets) (done api.Done, err error) {
	return done, refusal(s.Worker.Poll(t.Targets))
}

// Pause has targets start nothing until they are continued.
func (s *Service) Pause(_ context.Context, from Call, t api.Targets) (done api.Done, err error) {
	return done, s.judge(api.Pause.Name, from, s.Worker.Pause(t.Targets, from.From))
}

// Continue ends a pause.
func (s *Service) Continue(_ context.Context, from Call, t api.Targets) (done api.Done, err error) {
	return done, s.judge(api.Continue.Name, from, s.Worker.Continue(t.Targets, from.From))
}

// AddTarget has the worker serve one more target.
func (s *Service) AddTarget(_ context.Context, from Call, t api.Slots) (done api.Done, err error) {
	return done, s.judge(api.AddTarget.Name, from, s.Worker.AddTarget(t.Target, t.Concurrency, from.From))
}

// SetConcurrency changes how many jobs of a target may run at once.
func (s *Service) SetConcurrency(_ context.Context, from Call, t api.Slots) (done api.Done, err error) {
	return done, s.judge(api.SetConcurrency.Name, from, s.Worker.SetConcurrency(t.Target, t.Concurrency, from.From))
}

// RemoveTarget has the worker serve a target no more.
func (s *Service) RemoveTarget(_ context.Context, from Call, t api.Target) (done api.Done, err error) {
	return done, s.judge(api.RemoveTarget.Name, from, s.Worker.RemoveTarget(t.Target, from.From))
}

// RunManual runs jobs of status manual, and waits for all of them.
func (s *Service) RunManual(ctx context.Context, from Call, m api.Manual) (told api.Outcomes, err error) {
	answer, err := s.Worker.RunManual(ctx, int64s(m.IDs), from.From)
	told.Jobs, told.Errors, err = answered(s, api.RunManual.Name, from, answer, err, func(r jobexec.Result) api.Outcome { return api.Outcome(r) })
	return told, err
}

// answered turns an answer about jobs into the one for a client: each job has its form on the wire. If
// nothing was done about any job, it notes the first error in the history as a refusal.
func answered[T, A any](
	s *Service, request string, from Call, answer jobexec.Answer[T], err error, form func(T) A,
) (jobs map[jobnet.Whole]A, refused map[jobnet.Whole]string, _ error) {
	if err != nil {
		return nil, nil, s.judge(request, from, err)
	}
	if !answer.Requested && len(answer.Errors) > 0 {
		first := answer.Errors[slices.Min(slices.Collect(maps.Keys(answer.Errors)))]
		if more := len(answer.Errors) - 1; more > 0 {
			first += fmt.Sprintf("; and %d more", more)
		}
		s.refused(request, from, first)
	}
	return byID(answer.Jobs, form), byID(answer.Errors, as[string]), nil
}

// as is the form of what has the same one on the wire.
func as[T any](what T) T { return what }

// byID is what is told of jobs, under their ids as the wire has them.
func byID[V, A any](of map[int64]V, form func(V) A) map[jobnet.Whole]A {
	told := make(map[jobnet.Whole]A, len(of))
	for id, what := range of {
		told[jobnet.Whole(id)] = form(what)
	}
	return told
}

// int64s are ids as the worker has them, and fromID what a client says of jobs, under such ids.
func int64s(ids []jobnet.Whole) []int64 {
	all := make([]int64, len(ids))
	for i, id := range ids {
		all[i] = int64(id)
	}
	return all
}

func fromID[V any](of map[jobnet.Whole]V) map[int64]V {
	all := make(map[int64]V, len(of))
	for id, what := range of {
		all[int64(id)] = what
	}
	return all
}

// SendSignal signals running jobs. Nothing is delivered to what can't be signalled: ids that are no
// integers, jobs that don't run here, unknown signals.
func (s *Service) SendSignal(_ context.Context, from Call, q api.Signals) (api.Delivered, error) {
	delivered := make(map[string]bool, len(q.Jobs)+len(q.Odd))
	signals := make(map[int64]int, len(q.Jobs))
	wanted, reached := false, false // more than a probe; anybody
	for id, signo := range q.Jobs {
		signals[int64(id)] = signo
		wanted = wanted || signo != 0
	}
	for name, more := range q.Odd {
		delivered[name] = false
		wanted = wanted || more
	}
	for id, sent := range s.Worker.SendSignal(signals, from.From) {
		delivered[strconv.FormatInt(id, 10)] = sent
		reached = reached || sent
	}
	if wanted && !reached {
		s.refused(api.SendSignal.Name, from, "nothing was signalled")
	}
	return api.Delivered{Jobs: delivered}, nil
}

// Status tells how the worker stands.
func (s *Service) Status(context.Context, Call, api.None) (api.WorkerStatus, error) {
	now := s.Worker.Status()
	status := api.WorkerStatus{
		Targets: make(map[string]api.TargetStatus, len(now.Targets)), Clients: now.Clients,
		ClaimsInDoubt: now.Doubted, UnownedRows: now.UnownedRows, Executors: executors(now.Executors),
	}
	for name, target := range now.Targets {
		status.Targets[name] = api.TargetStatus(target)
	}
	if failure := now.Launcher; failure != nil {
		status.Launcher = &api.LaunchFailure{Broken: failure.Why, Since: failure.Since}
	}
	s.Process.Describe(now, &status)
	return status, nil
}

// judge is what a caller is told of an error: a refusal, which is journalled, is told as it is.
func (s *Service) judge(request string, from Call, err error) error {
	err = refusal(err)
	s.Refused(request, from, err)
	return err
}

// refusal makes what the worker refuses, or has no room to journal, a refusal that peers are told.
func refusal(err error) error {
	var refused jobexec.RefusedError
	if errors.As(err, &refused) {
		return jobnet.Refusal(refused)
	}
	if errors.Is(err, journal.ErrFull) {
		return jobnet.Refusal("there is no room for the journal: " + err.Error())
	}
	return err
}

// Refused journals that a request which would have changed something was refused, where err is a
// refusal. Fronts call it for what they refuse themselves: data that is not as it has to be.
func (s *Service) Refused(request string, from Call, err error) {
	var refused jobnet.Refusal
	if errors.As(err, &refused) {
		s.refused(request, from, string(refused))
	}
}

// refused journals that a caller was refused a request, or counts it.
func (s *Service) refused(request string, from Call, reason string) {
	s.Refusals.Note(journal.Refused{Request: request, About: from.About(), Reason: reason, By: from.From})
}

// Cancel has jobs not run, or end. Where nothing was cancelled and something was refused, that is
// part of the history.
func (s *Service) Cancel(ctx context.Context, from Call, q api.CancelQuery) (told api.CancelAnswer, err error) {
	wish := jobexec.CancelWish{
		IDs: int64s(q.IDs), Targets: fromID(q.Targets), Grace: api.DefaultGrace * time.Millisecond,
		Rows: q.Rows, By: from.From, Schedule: q.Schedule,
	}
	if q.Grace != nil {
		wish.Grace = time.Duration(*q.Grace) * time.Millisecond
	}
	done, err := s.Worker.Cancel(ctx, wish)
	told.Jobs, told.Errors, err = answered(s, api.Cancel.Name, from, done.Answer, err, cancelled)
	told.Elsewhere = byID(done.Elsewhere, func(row journal.Row) api.ClaimedRow {
		return api.ClaimedRow{Status: row.Status, Owner: row.Owner, Target: row.Target}
	})
	return told, err
}

// cancelled is what a client is told of a job that was cancelled.
func cancelled(job jobexec.CancelledJob) api.CancelledJob {
	told := api.CancelledJob{State: api.CancelCancelling, Target: job.Target, By: job.By, Next: job.Next}
	switch job.Did {
	case board.NotRun:
		told.State = api.CancelIgnored
		return told
	case board.GivenUp:
		told.State = api.CancelDone
		return told
	}
	told.Before = job.Did == board.Already
	told.Grace, told.Kill = job.Grace.Milliseconds(), job.At.Add(job.Grace).UnixMilli()
	return told
}

// Retry sets rows that are done or ignored back, to be run once more.
func (s *Service) Retry(ctx context.Context, from Call, q api.RetryRows) (told api.RetriedRows, err error) {
	answer, err := s.Worker.SetBack(ctx, jobexec.RetryWish{
		IDs: int64s(q.IDs), Finished: fromID(q.Finished), To: fromID(q.To), By: from.From,
	})
	told.Jobs, told.Errors, err = answered(s, api.Retry.Name, from, answer, err, as[string])
	return told, err
}

// Plan changes the plans of delayed rows as a request of this name wants it.
func (s *Service) Plan(request string, hand board.Hand) func(context.Context, Call, api.PlanRows) (api.PlannedRows, error) {
	return func(ctx context.Context, from Call, q api.PlanRows) (told api.PlannedRows, err error) {
		answer, err := s.Worker.Plan(ctx, jobexec.PlanWish{Hand: hand, IDs: int64s(q.IDs), By: from.From})
		told.Jobs, told.Errors, err = answered(s, request, from, answer, err, as[int64])
		return told, err
	}
}

// Reload reads the configuration again, and tells what it has changed.
func (s *Service) Reload(_ context.Context, from Call, _ api.None) (told api.Reloaded, err error) {
	before := s.Worker.Status().Targets
	if told, err = s.Process.Reload(from.From); err != nil {
		return told, jobnet.Refusef("not reloaded: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	told.Before, told.After = make(map[string]api.TargetStatus), make(map[string]api.TargetStatus)
	after := s.Worker.Status().Targets
	for name, was := range before {
		if now, stays := after[name]; !stays || was.Concurrency != now.Concurrency || was.Paused != now.Paused {
			told.Before[name] = api.TargetStatus(was)
		}
	}
	for name, now := range after {
		_, changed := told.Before[name]
		if _, was := before[name]; changed || !was {
			told.After[name] = api.TargetStatus(now)
		}
	}
	return told, nil
}

const refusedStopping = jobnet.Refusal("not restarted: the worker is stopping")

// Restart hands over to this worker's next start. That start is tried first, and what it says is
// wrong is told before anything is given up. Only one restart is under way at a time, and none
// while the process stops.
//
// The crash argument: until the request is journalled nothing has changed. From then on this is a
// stop with handover, killed or not: what runs is with the runner, everything else in the journal.
func (s *Service) Restart(ctx context.Context, from Call, r api.Restarting) (told api.Restarted, err error) {
	next, err := s.restart(ctx, from)
	if err != nil {
		return told, s.judge(api.Restart.Name, from, err)
	}
	if r.Next {
		told.Next = &next
	}
	return told, nil
}

func (s *Service) restart(ctx context.Context, from Call) (next api.Successor, err error) {
	if s.Process.Stopping() {
		return next, refusedStopping.With(jobnet.CodeStopping)
	}
	if !s.restarting.CompareAndSwap(false, true) {
		return next, jobnet.Refusal("not restarted: a restart is under way already")
	}
	by := from.From
	next, err = s.Process.Follow(ctx)
	if err == nil && s.Process.Stopping() { // meanwhile
		return next, refusedStopping.With(jobnet.CodeStopping)
	}
	if err == nil {
		err = s.Worker.Note(journal.Requested{Request: api.Restart.Name, By: by})
	}
	if err != nil {
		s.restarting.Store(false)
		s.Logger.Error("restart refused", "by", by, "error", err)
		return next, jobnet.Refusef("not restarted: %v", err)
	}
	s.Worker.HandOver() // before the end begins
	s.Process.Restart(by)
	return next, nil
}
