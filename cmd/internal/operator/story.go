package operator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/reason"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Story is all that is known of one job: why it is where it is, its row, and what became of it.
type Story struct {
	Job     Job
	Verdict reason.Verdict
	Row     *api.JobRow // nil: there is none, or nobody could read it
	Read    bool        // somebody could read the table
	Runs    []*Run      // the newest ones, the oldest first; what is told from before a claim is one, too
	Earlier bool        // there are, or may be, others before these
	Unheard bool        // a journal could not be read, so some may lack
	Failed  []error     // why it could not

	clock Clock
	live  *api.JobOutput // what it has written so far; nil: it does not run, or this was not asked for
}

// StoryEvent is an event of a job, and what it means.
type StoryEvent struct {
	From[journal.Event]
	Text string
}

// A row that recurs has ever more events: only the newest are asked for.
const (
	// UsualRuns is how many runs of a job are told where nobody says otherwise.
	UsualRuns = 10
	// eventsOfRun is how many events are asked for, for a run: most have four, and one that is given
	// back, signalled or planned anew some more.
	eventsOfRun = 8
)

// Tell tells the story of a job, with so many of its runs (0: all), and where it is wanted with what they wrote. note is told who did not answer; a
// journal that can't be read takes nothing from the rest.
func Tell(ctx context.Context, d *Daemon, job Job, runs int, output bool, clock Clock, note func(error)) (*Story, error) {
	e, err := explain(ctx, d, []Job{job}, clock)
	if err != nil {
		return nil, err
	}
	noteSilent(e.answers, note)
	for _, a := range e.answers {
		a.From.own = a.Value.Name
	}
	j := journalsOf(answered(e.answers), note)
	s := &Story{Job: job, Verdict: e.verdicts[0], Row: e.verdicts[0].Row, Read: e.read(), clock: clock}
	s.readRuns(ctx, j, history.Query{Output: output}, runs)
	if output {
		s.live = e.live(ctx)
	}
	s.Failed = j.Failed
	s.Unheard = len(j.Sources) < len(e.answers) || len(j.Failed) > 0
	return s, nil
}

// TellUntil tells the story of a job up to a moment, by the journals alone.
func TellUntil(ctx context.Context, j *Journals, job Job, at time.Time, clock Clock) *Story {
	s := &Story{Job: job, clock: clock}
	s.readRuns(ctx, j, history.Query{Until: history.Behind(at), Output: true}, UsualRuns)
	s.Failed, s.Unheard = j.Failed, len(j.Failed) > 0
	return s
}

// TellBy tells a job's story by the journals alone, with all that the job wrote.
func TellBy(ctx context.Context, j *Journals, job Job, clock Clock) *Story {
	s := &Story{Job: job, clock: clock}
	s.readRuns(ctx, j, history.Query{Output: true}, 0)
	s.Failed = j.Failed
	return s
}

// readRuns reads what the journals know of the newest runs, so many at most (0: all), of the time that a query
// says.
func (s *Story) readRuns(ctx context.Context, j *Journals, q history.Query, runs int) {
	most := runs * eventsOfRun
	q.Job, q.Last = s.Job.ID, most
	var events []From[journal.Event]
	for event, err := range j.Events(ctx, q) {
		if err != nil {
			j.Failed = append(j.Failed, err)
			break
		}
		events = append(events, event)
	}
	if runs > 0 {
		s.Earlier = len(events) >= most
		if begin := beginOfRuns(events, runs, s.Earlier); begin > 0 {
			s.Earlier, events = true, events[begin:]
		}
	}
	told := narrator{clock: s.clock}
	for _, e := range events {
		before := told.run
		text, err := told.tell(ctx, e)
		if err != nil {
			j.Failed = append(j.Failed, err)
		}
		if told.run != before {
			s.Runs = append(s.Runs, told.run)
		}
		told.run.Events = append(told.run.Events, StoryEvent{e, text})
	}
}

// beginOfRuns is the place of the first event of the newest runs, so many at most. Where there are
// others before the events, the first run that is whole begins with a claim.
func beginOfRuns(events []From[journal.Event], runs int, before bool) (begin int) {
	found := 0
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Item.Kind() != journal.KindAccepted {
			continue
		}
		if found++; found > runs {
			return begin
		}
		begin = i
	}
	if !before {
		return 0
	}
	return begin
}

// Newest is the newest run; an empty one where no journal knows the job.
func (s *Story) Newest() *Run {
	if len(s.Runs) == 0 {
		return &Run{}
	}
	return s.Runs[len(s.Runs)-1]
}

// Delay is how long the row waited until its newest claim, to the second, as the table has it. Of one
// that came at a time it is how late that was; of further attempts there is none.
func (s *Story) Delay() (delay Length, known bool) {
	r := s.Newest()
	if r.timed {
		return Length{"later than planned", r.late}, r.late != ""
	}
	if s.Row == nil || s.Row.Created == 0 || r.claimed.IsZero() {
		return Length{}, false
	}
	waited := r.claimed.Sub(time.Unix(s.Row.Created, 0)).Truncate(time.Second)
	return Length{"until it was claimed", waited.String()}, waited >= 0
}

// Output is the end of what a job wrote to a stream.
type Output struct {
	Name string
	Text string
	Size int64 // of all of it
}

// Outputs is what the job wrote: of one that runs the end of it so far; else as the journal has it, which has it
// whole, or as the row does. Streams without a byte are left out.
func (s *Story) Outputs() []Output {
	if s.live != nil {
		return written(Output{"stdout", string(s.live.Stdout.Bytes), s.live.Stdout.Size}, Output{"stderr", string(s.live.Stderr.Bytes), s.live.Stderr.Size})
	} else if done := s.Newest().Done; done != nil {
		return written(
			Output{"stdout", done.Stdout.Text(0, journal.CharsetFull), done.Stdout.Size},
			Output{"stderr", done.Stderr.Text(0, journal.CharsetFull), done.Stderr.Size},
		)
	} else if s.Row != nil {
		return outputsOf(s.Row)
	}
	return nil
}

// Shown is what the job wrote, where its row is at an end and has all of it, as the journal counts its bytes; else
// whole is false, and the journal must be asked for it.
func (s *Story) Shown() (all []Output, whole bool) {
	done, r := s.Newest().Done, s.Row
	if done == nil || r == nil || r.Status != journal.RowDone {
		return nil, false
	}
	whole = r.Stdout.Size == done.Stdout.Size && r.Stdout.Size == int64(len(r.Stdout.Tail)) &&
		r.Stderr.Size == done.Stderr.Size && r.Stderr.Size == int64(len(r.Stderr.Tail))
	return outputsOf(r), whole
}

// outputsOf are those of a row.
func outputsOf(r *api.JobRow) []Output {
	return written(Output{"stdout", r.Stdout.Tail, r.Stdout.Size}, Output{"stderr", r.Stderr.Tail, r.Stderr.Size})
}

// written leaves out streams without a byte.
func written(all ...Output) []Output {
	return slices.DeleteFunc(all, func(o Output) bool { return o.Size == 0 })
}

// Column is a column of a row, as people are told of it.
type Column struct{ Name, Text string }

// Columns are those of the row, without what is empty.
func (s *Story) Columns() []Column {
	r := s.Row
	all := []Column{
		{"target", r.Target},
		{"status", r.Status},
		{"owner", ownerText(r)},
		{"created", s.clock.Seconds(r.Created)},
		{"started", s.clock.Seconds(r.Started)},
		{"finished", s.clock.Seconds(r.Finished)},
		{"result", r.Result},
		{"return code", codeText(r.Code)},
		{"signal", r.Sig},
		{"stdout", sizeText(r.Stdout)},
		{"stderr", sizeText(r.Stderr)},
	}
	if r.Plan != nil {
		all = append(all, s.timeColumns(r.Plan)...)
	}
	return slices.DeleteFunc(all, func(c Column) bool { return c.Text == "" })
}

// ownerText is what is told of the owner column. Where tokens stand in the column sig, that is one
// column with two meanings.
func ownerText(r *api.JobRow) string {
	if r.Owner == r.Sig {
		return ""
	}
	return r.Owner
}

func codeText(code *int64) string {
	if code == nil {
		return ""
	}
	return strconv.FormatInt(*code, 10)
}

// sizeText is how much a column of output holds.
func sizeText(text api.JobText) string {
	if text.Size == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes", text.Size)
}

// timeColumns are what a row says about time.
func (s *Story) timeColumns(p *api.RowPlan) []Column {
	next := s.clock.Seconds(p.Next)
	if p.Next == p.RunAt && s.Row.Status == journal.RowDelayed {
		next = ""
	}
	if p.Bad != "" {
		next = "never: " + p.Bad
	}
	zone := p.Zone
	if zone == "" && p.In != "UTC" {
		zone = p.In
	}
	return []Column{
		{"due", s.clock.Seconds(p.RunAt)},
		{"planned", s.clock.Seconds(p.PlannedAt)},
		{"attempts", attemptsText(p)},
		{"timeout", someSeconds(p.Timeout)},
		{"schedule", p.Schedule},
		{"time zone", zone},
		{"next run", next},
	}
}

// attemptsText is how often the present run was started, of how many times.
func attemptsText(p *api.RowPlan) string {
	switch {
	case p.MaxAttempts > 0:
		return fmt.Sprintf("%d of %d", p.Attempts, p.MaxAttempts)
	case p.Attempts > 0:
		return fmt.Sprint(p.Attempts)
	}
	return ""
}

// Job names a job: with the target that its row must have, "" whichever.
type Job struct {
	ID     jobnet.Whole
	Target string
}

// explanation is what the workers have told of some jobs.
type explanation struct {
	answers  []Answer[api.Explained]
	verdicts []reason.Verdict // on each of the jobs
}

// Why gives the verdicts on jobs, in their order. note is told which workers did not answer.
func Why(ctx context.Context, d *Daemon, jobs []Job, clock Clock, note func(error)) iter.Seq2[reason.Verdict, error] {
	return func(yield func(reason.Verdict, error) bool) {
		silent := note
		for some := range slices.Chunk(jobs, api.MostExplained) {
			e, err := explain(ctx, d, some, clock)
			if err != nil {
				yield(reason.Verdict{}, err)
				return
			}
			noteSilent(e.answers, silent)
			silent = func(error) {} // they were told once
			for _, verdict := range e.verdicts {
				if !yield(verdict, nil) {
					return
				}
			}
		}
	}
}

// noteSilent tells of the workers that did not answer: the others' answers count.
func noteSilent[A any](all []Answer[A], note func(error)) {
	for _, one := range all {
		if one.Err != nil {
			note(one.From.Named(one.Err))
		}
	}
}

// explain asks all workers about jobs, which one request may be about, and gives the verdict on each.
func explain(ctx context.Context, d *Daemon, jobs []Job, clock Clock) (*explanation, error) {
	e := &explanation{}
	var err error
	if e.answers, err = All[api.Explained](ctx, d, api.Explain.Name, api.ExplainQuery{IDs: ids(jobs), Output: true}); err != nil {
		return nil, err
	}
	e.served(ctx, d)
	for _, job := range jobs {
		e.verdicts = append(e.verdicts, e.why(d, job, clock))
	}
	return e, nil
}

// ids are the jobs' ids, each once.
func ids(jobs []Job) (list []jobnet.Whole) {
	for _, job := range jobs {
		if !slices.Contains(list, job.ID) {
			list = append(list, job.ID)
		}
	}
	return list
}

// why is the verdict on a job.
func (e *explanation) why(d *Daemon, job Job, clock Clock) reason.Verdict {
	answers := make([]reason.Answer, len(e.answers))
	for i, a := range e.answers {
		answers[i] = reason.Answer{Name: a.From.Name, Explained: a.Value, Err: a.Err}
	}
	return reason.Of(reason.Question{Job: int64(job.ID), Target: job.Target, Master: d.Master, Now: clock.Now, Location: clock.Location}, answers)
}

// served notes which targets those serve who have told nothing, as their master knows it.
func (e *explanation) served(ctx context.Context, d *Daemon) {
	if Silent(e.answers) == nil {
		return
	}
	var silent []*Worker
	for _, a := range e.answers {
		if a.Err != nil {
			silent = append(silent, a.From)
		}
	}
	d.noteTargets(ctx, silent)
	for i := range e.answers {
		if a := &e.answers[i]; a.Err != nil {
			a.Value.Targets = a.From.Targets
		}
	}
}

// live is what the one job that was asked about has written so far; nil where nobody runs it, or can tell.
func (e *explanation) live(ctx context.Context) *api.JobOutput {
	for _, a := range e.answers {
		if a.Err != nil || len(a.Value.Jobs) != 1 || a.Value.Jobs[0].Here == nil {
			continue
		}
		job, told := a.Value.Jobs[0].Job, api.JobOutput{}
		err := a.From.Ask(ctx, api.Output.Name, api.OutputQuery{Job: job, Stdout: -api.MostOutput, Stderr: -api.MostOutput}, &told)
		if err == nil && told.Running {
			return &told
		}
	}
	return nil
}

// readsTable tells whether a worker could read the table.
func readsTable(a Answer[api.Explained]) bool { return a.Err == nil && a.Value.Table == "" }

// read tells whether anybody could read the table.
func (e *explanation) read() bool { return slices.ContainsFunc(e.answers, readsTable) }
