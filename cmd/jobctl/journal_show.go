package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) journalShow() *cmd {
	var id jobnet.Whole
	c := p.journalCommand("show", " ID", "the whole story of one job: claims, attempts, signals, its end, its output", func(ctx context.Context, j *operator.Journals, _ []string) error {
		return p.storyOf(j, id).tell(ctx)
	})
	checkFirst(c, func(args []string) (err error) {
		if err := oneJob("journal show", "ID", args); err != nil {
			return err
		}
		if id, err = parseID(args[0]); err != nil {
			return wrongUsage("journal show: job %q is not allowed; allowed is %w", args[0], err)
		}
		return nil
	})
	return c
}

// tell prints the story of one job.
func (s *story) tell(ctx context.Context) error {
	for e, err := range s.journals.Events(ctx, history.Query{Job: s.job, Output: true}) {
		if err != nil {
			s.outcome() // of what is sound
			return err
		}
		if err := s.printEvent(ctx, e); err != nil {
			return err
		}
	}
	if s.last == nil {
		return s.unknown(ctx, s.job)
	}
	return s.end(ctx, s.job)
}

// unknown is the error of a job without events, which retention may have removed.
func (s *story) unknown(ctx context.Context, id int64) error {
	err := exit.With(exit.NoJob, fmt.Errorf("job %d: no journal knows it%s", id, s.elsewhere("; ")))
	for _, source := range s.journals.Sources {
		if removed, keptErr := source.Kept(ctx); keptErr == nil && removed != nil {
			err = fmt.Errorf("%w; %w", err, operator.Named(source.Worker(), removed))
		}
	}
	return err
}

// elsewhere says, behind a sign, where the rest is, if only a master's journal is read.
func (s *story) elsewhere(sign string) string {
	for _, source := range s.journals.Sources {
		if f, folder := source.(operator.Folder); !folder || !f.Master {
			return ""
		}
	}
	return sign + "this is the master's journal: the job's own history is in its worker's"
}

// newest prints what journals know newest of a job.
func (s *story) newest(ctx context.Context) error {
	for e, err := range s.journals.Events(ctx, history.Query{Job: s.job, Last: 1}) {
		if err != nil {
			return err
		}
		if s.last = e.Source; s.json() {
			return s.printJSON(eventJSON(e.Source.Worker(), e.Item))
		}
		text, err := s.told.Tell(ctx, e)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("job %d: %s  %s", s.job, s.clocks.of(s.program, e.Item.Time), text+s.elsewhere("; "))
		_, err = fmt.Fprintln(s.out, s.paint(line, toneOf(e.Item.Payload)))
		return err
	}
	return s.unknown(ctx, s.job)
}

// story prints what became of a job, event by event.
type story struct {
	*program
	job      int64
	journals *operator.Journals
	told     operator.Narrator
	last     operator.Source // of the newest event; nil before the first
	clocks   clocks
}

// storyOf is what some journals tell of a job.
func (p *program) storyOf(j *operator.Journals, job jobnet.Whole) *story {
	return &story{program: p, job: int64(job), journals: j, told: operator.Narrator{Clock: p.times()}}
}

// printEvent prints one event.
func (s *story) printEvent(ctx context.Context, e operator.From[journal.Event]) error {
	first := s.last == nil
	s.last = e.Source
	if s.json() {
		return s.printJSON(eventJSON(e.Source.Worker(), e.Item))
	}
	if first {
		fmt.Fprintf(s.out, "job %d\n\n", s.job)
	}
	text, err := s.told.Tell(ctx, e)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s  %s", s.clocks.of(s.program, e.Item.Time), text)
	_, err = fmt.Fprintln(s.out, s.paint(line, toneOf(e.Item.Payload)))
	return err
}

// end prints how long things took, what the job printed, and what the table says.
func (s *story) end(ctx context.Context, id int64) error {
	s.outcome()
	if note := s.elsewhere("\n"); note != "" && !s.json() {
		fmt.Fprintln(s.out, note)
	}
	r := s.last.Link()
	if r == nil {
		return nil
	}
	var answer history.RowsAnswer
	err := r.Ask(ctx, api.JournalRows, map[string]any{"ids": []jobnet.Whole{jobnet.Whole(id)}}, &answer)
	switch {
	case err != nil:
		return fmt.Errorf("what the table says of job %d now: %w", id, err)
	case s.json():
		return s.printJSON(map[string]any{"table": answer.Rows})
	case len(answer.Rows) == 0:
		_, err = fmt.Fprintf(s.out, "\nthe table has no row of job %d\n", id)
	default:
		_, err = fmt.Fprintf(s.out, "\nthe table now: %s\n", operator.DescribeRow(answer.Rows[0]))
	}
	return err
}

// outcome prints how long things took and what the job printed.
func (s *story) outcome() {
	if s.json() || s.last == nil {
		return
	}
	s.printLengths(s.told.Run)
	if done := s.told.Run.Done; done != nil {
		s.printOutput("stdout", done.Stdout)
		s.printOutput("stderr", done.Stderr)
	}
}

// printLengths prints how long the parts of a run took.
func (p *program) printLengths(run *operator.Run) {
	for i, length := range run.Lengths() {
		if i == 0 {
			fmt.Fprintln(p.out)
		}
		fmt.Fprintf(p.out, "%-7s %s\n", length.Name, length.Text)
	}
}

func (p *program) printOutput(name string, output journal.Output) {
	fmt.Fprintf(p.out, "\n%s: %d bytes\n", name, output.Size)
	fmt.Fprint(p.out, withNewline(output.Text(0, journal.CharsetFull)))
}

// mostRetried is how many retried jobs a reapply takes into account: each worker is told of them.
const mostRetried = 20_000

// retried gathers the jobs that any worker has set back: which end that was, by the row's
// time_finished. A worker that knows that end, or an earlier one, does not know that it is over where
// another one has set the row back, and the table is from before both.
func (p *reapply) retried(ctx context.Context) (map[int64]int64, error) {
	if len(p.journals.Workers) < 2 {
		return nil, nil
	}
	ended := map[int64]int64{}
	q := history.Query{Kinds: []journal.Kind{journal.KindRetried, journal.KindConflict}, Since: p.query.Since}
	for e, err := range p.journals.Events(ctx, q) {
		if err != nil {
			return nil, err
		}
		switch payload := e.Item.Payload.(type) {
		case journal.Retried:
			ended[e.Item.Job] = payload.Finished
		case journal.Conflict:
			if payload.Wanted == journal.WantedRetried {
				delete(ended, e.Item.Job)
			}
		}
		if len(ended) > mostRetried {
			return nil, fmt.Errorf("more than %d jobs were retried, which is more than can be taken into account: narrow it with --since; nothing was changed", mostRetried)
		}
	}
	return ended, nil
}

func (p *program) journalState() *cmd {
	var at time.Time
	var since time.Time
	var status string
	var q history.AtQuery
	c := p.journalCommand("state", "", "every job's status, now or at a time, by replay", func(ctx context.Context, j *operator.Journals, _ []string) error {
		if at.After(p.now()) {
			p.note(errors.New("--at is in the future: this is how it stands now"))
		}
		q.At, q.Since, q.Status = at, since, journal.Status(status)
		if err := j.NoteRemoved(ctx, q.Since, time.Time{}); err != nil {
			return err
		}
		all := operator.Merge(j, func(s operator.Source) iter.Seq2[history.Job, error] { return s.Jobs(ctx, q) }, history.Job.Before)
		if q.Last > 0 {
			all = history.Newest(all, q.Last)
		}
		return p.buffered(func() error { return p.printStates(j, all) })
	})
	checkFirst(c, func([]string) error {
		if !at.IsZero() && since.After(at) {
			return wrongUsage("journal state: --since is not before --at")
		}
		return nil
	})
	c.FlagSet.Func("at", "as it was at this time: 2026-11-20 14:00, 14:00, 2h (ago), or unix time in seconds", p.moment(&at))
	c.FlagSet.Func("since", "only jobs that came into their status from this time on: they ended, began to run or were claimed", p.moment(&since))
	c.FlagSet.StringVar(&q.Target, "target", "", "only jobs of this target")
	c.FlagSet.Func("n", "only the last N of them", count(&q.Last, 0, 0))
	c.FlagSet.Var(oneOf{value: &status, allowed: statusNames()}, "status", "only jobs of this status: "+strings.Join(statusNames(), ", "))
	return c
}

func (p *program) printStates(j *operator.Journals, jobs iter.Seq2[operator.From[history.Job], error]) error {
	head := []string{"JOB", "TARGET", "STATUS", "RESULT", "ATTEMPT", "ACCEPTED", "RUNNING", "ENDED"}
	if p.brief() {
		head = append(head[:5], "SINCE")
	}
	states := p.report(j.Named(), "no jobs", head...).cutAt("WORKER|TARGET|RESULT")
	progress := p.progress("jobs")
	defer progress.end()
	for entry, err := range jobs {
		if err != nil {
			return states.end(err)
		}
		worker, job := entry.Source.Worker(), entry.Item
		values := []any{job.Job, job.Target, string(job.Status), outcome(job) + p.again(job.Again), job.Attempt}
		if p.brief() {
			values = append(values, p.clock(job.Changed()))
		} else {
			values = append(values, p.stamp(job.Accepted), p.stamp(job.Running), p.stamp(job.Ended))
		}
		err = states.add(worker, workersJob{worker, job}, toneOfStatus(job.Status, job.Result), values...)
		if err != nil {
			return err
		}
		if !p.terminal {
			progress.at(states.count)
		}
	}
	return states.end(nil)
}

// workersJob is a job's state as JSON.
type workersJob struct {
	Worker string `json:"worker,omitempty"`
	history.Job
}

// outcome says how a job ended, where it did.
func outcome(job history.Job) string {
	if job.Status != journal.StatusDone {
		return job.Reason
	}
	return operator.Outcome(api.Outcome{Result: job.Result, Code: job.Code, Signal: &job.Signal})
}

func statusNames() []string {
	var names []string
	for _, status := range history.Statuses() {
		names = append(names, string(status))
	}
	return names
}

// again says when a row comes back; "" where it does not.
func (p *program) again(again *journal.Again) string {
	if again == nil {
		return ""
	}
	return ", again " + p.seconds(again.RunAt)
}

// unknownPage is how many rows are asked about in one go.
const unknownPage = 10_000

// errUnknown says how to go on.
var errUnknown = errors.New("nothing was changed: nobody can tell whether some rows that wait have run, and they would be run (again); " +
	"give the journals of lost workers with --journal DIR, or go on with --accept-unknown")

// checkUnknown lists the rows that wait and that no journal knows: they may have run, and would run
// again. reapply leaves them as they are, and goes on only if the operator accepts that.
func (p *reapply) checkUnknown(ctx context.Context, lost []lostJournal, accept bool) error {
	suspects := make(map[int64]bool)
	var notes []string
	for _, r := range p.journals.Workers {
		told, err := p.unknown(ctx, r, history.ReapplyQuery{Since: p.query.Since})
		if err != nil {
			return p.journals.Fail(r, err)
		}
		for _, id := range told.Rows {
			suspects[id] = true
		}
		if len(told.Rows) > 0 {
			notes = append(notes, p.describeBeginning(told))
		}
	}
	for _, r := range p.journals.Workers {
		if err := p.narrow(ctx, r, "", suspects); err != nil {
			return err
		}
	}
	for _, one := range lost {
		if err := p.narrow(ctx, one.reader, one.folder, suspects); err != nil {
			return err
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(suspects))
	fmt.Fprintf(p.err, "jobctl: %d rows wait that may have run, and that no journal knows: %s\n", len(ids), operator.SomeIDs(ids[:min(len(ids), unknownPage)], max(len(ids)-unknownPage, 0)))
	for _, note := range notes {
		fmt.Fprintf(p.err, "jobctl: %s\n", note)
	}
	if !accept && !p.query.DryRun {
		return errUnknown
	}
	return nil
}

// describeBeginning says when a worker's history begins, and why not earlier.
func (p *reapply) describeBeginning(told history.Unknown) string {
	why := "it holds nothing from before, as that of a new worker, or of one that lost its journal"
	if told.Removed {
		why = "retention has removed what was before"
	}
	return fmt.Sprintf("%d rows that wait were created before the history of %s begins, %s: %s", len(told.Rows), clean(told.Name), p.clock(told.Begins), why)
}

// narrow drops the rows that a journal knows.
func (p *reapply) narrow(ctx context.Context, r *operator.Worker, folder string, suspects map[int64]bool) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(suspects)), unknownPage) {
		told, err := p.unknown(ctx, r, history.ReapplyQuery{Journal: folder, Among: ids})
		if err != nil {
			return p.journals.Fail(r, err)
		}
		for _, id := range ids {
			if _, is := slices.BinarySearch(told.Rows, id); !is {
				delete(suspects, id)
			}
		}
	}
	return nil
}

// unknown asks a worker which rows one journal does not know.
func (p *reapply) unknown(ctx context.Context, r *operator.Worker, query history.ReapplyQuery) (told history.Unknown, err error) {
	query.Unknown = true
	var rows []int64
	for item, err := range operator.Stream[history.Unknown](ctx, r, api.JournalReapply, query) {
		if err != nil {
			return told, err
		}
		told, rows = item, append(rows, item.Rows...)
	}
	told.Rows = rows
	return told, nil
}
