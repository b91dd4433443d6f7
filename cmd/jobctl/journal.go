package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
)

// journal is the commands that read journals: from a worker's folder, through the worker, or
// through a master from all its workers.
func (p *program) journal() *cmd {
	c := command("journal COMMAND [--journal DIR]", "read the journal of a worker, from its folder or through it; with --master those of all workers", nil)
	c.Subcommands = []*cmd{
		p.journalLog(), p.journalShow(), p.journalState(), p.journalConflicts(), p.journalStats(),
		p.journalExport(), p.journalVerify(), p.journalAnchor(), p.journalDiff(), p.journalReapply(),
	}
	return c
}

// journalCommand makes a command that gets the journals which the flags name.
func (p *program) journalCommand(name, arguments, help string, exec func(ctx context.Context, j *operator.Journals, args []string) error) *cmd {
	var dirs []string
	c := command("journal "+name+arguments+" [--journal DIR]", help, func(ctx context.Context, args []string) error {
		return p.read(ctx, dirs, func(ctx context.Context, j *operator.Journals) error { return exec(ctx, j, args) })
	})
	c.FlagSet.Func("journal", "the folder of the journal, more than once for several; without it, the worker or master at --host and --port is asked", folders(&dirs))
	return c
}

// checkFirst has a command's words and flags checked before a journal is opened or anybody asked.
func checkFirst(c *cmd, check func(args []string) error) {
	run := c.Exec
	c.Exec = func(ctx context.Context, args []string) error {
		if err := check(args); err != nil {
			return err
		}
		return run(ctx, args)
	}
}

// folders reads the value of a flag for folders, one each time that it is given.
func folders(dirs *[]string) func(text string) error {
	return func(text string) error {
		if text == "" {
			return errors.New("it must not be empty")
		}
		*dirs = append(*dirs, text)
		return nil
	}
}

// read opens what the flags name (folders, else a worker or a master), has it read, and tells what failed.
func (p *program) read(ctx context.Context, dirs []string, use func(ctx context.Context, j *operator.Journals) error) error {
	if len(dirs) > 0 {
		if p.giveWay != nil {
			p.giveWay()
		}
		return p.readFolders(ctx, dirs, use)
	}
	d := p.daemon()
	j, err := operator.FindJournals(ctx, d, p.note)
	if err != nil {
		return err
	}
	return j.Err(ctx, use(ctx, j))
}

// readFolders has folders read, whatever daemon is configured.
func (p *program) readFolders(ctx context.Context, dirs []string, use func(ctx context.Context, j *operator.Journals) error) error {
	j := &operator.Journals{Note: p.note}
	var folders []operator.Folder
	for i, dir := range dirs {
		if slices.ContainsFunc(dirs[:i], func(other string) bool { return filepath.Clean(other) == filepath.Clean(dir) }) {
			return wrongUsage("--journal %s is given twice", dir)
		}
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("open journal %s: this is not a folder", dir)
		}
		r, err := replay.Open(dir)
		if err != nil {
			return err
		}
		own, told := ownerOf(ctx, r, dir)
		folders = append(folders, operator.Folder{Reader: r, Dir: dir, Own: own, Master: told && own == journal.MasterName})
	}
	if len(folders) > 1 {
		p.tellApart(folders)
	}
	for _, f := range folders {
		j.Sources = append(j.Sources, f)
	}
	return j.Err(ctx, use(ctx, j))
}

// ownerOf is the name of the worker whose journal a folder holds, or the master's. One that does not tell, or is damaged, which
// its reader will notice, has the folder's.
func ownerOf(ctx context.Context, r *replay.Reader, dir string) (name string, told bool) {
	if name, err := r.Name(ctx); err == nil && name != "" {
		return name, true
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	return filepath.Base(dir), false
}

// tellApart gives folders their names. Where two journals are of one name, as an archive and what it was cut off from are, or
// those of two hosts whose workers were named alike, each bears its folder too, and that is said.
func (p *program) tellApart(folders []operator.Folder) {
	count := make(map[string]int)
	for _, f := range folders {
		count[f.Own]++
	}
	for i := range folders {
		f := &folders[i]
		if f.Name = f.Own; count[f.Own] > 1 {
			f.Name = fmt.Sprintf("%s (%s)", f.Own, f.Dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if n := count[name]; n > 1 {
			p.note(fmt.Errorf("%d journals are of worker '%s': they are told apart by their folders", n, clean(name)))
		}
	}
}

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
