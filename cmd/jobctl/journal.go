package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
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
	c := command("journal COMMAND [--journal DIR]", "read a worker's journal, from its folder or from the worker; with --master those of all workers", nil)
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
	c.FlagSet.Func("journal", "the journal's folder; repeat the flag for several; without it, the worker or master at --host and --port is asked", folders(&dirs))
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
		tellApart(folders)
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

// tellApart gives folders their names: the workers', and where two are of one name, as an archive and what it was cut off
// from are, that with the folder.
func tellApart(folders []operator.Folder) {
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
}

func (p *program) journalShow() *cmd {
	var id jobnet.Whole
	c := p.journalCommand("show", " ID", "the whole story of one job: claims, attempts, signals, its end, its output", func(ctx context.Context, j *operator.Journals, _ []string) error {
		return p.printHistory(ctx, j, operator.TellBy(ctx, j, operator.Job{ID: id}, p.times()))
	})
	checkFirst(c, func(args []string) (err error) {
		if len(args) != 1 {
			_, err = oneJob("journal show", "ID", args)
			return err
		}
		if id, err = parseID(args[0]); err != nil {
			return wrongUsage("journal show: job %q is not allowed; allowed: %w", args[0], err)
		}
		return nil
	})
	return c
}

// printHistory prints what journals tell of a job, all that it wrote, and what the table says of it now.
func (p *program) printHistory(ctx context.Context, j *operator.Journals, s *operator.Story) error {
	failed := errors.Join(s.Failed...)
	j.Failed = nil // they are told here
	switch {
	case len(s.Runs) == 0 && failed == nil:
		return unknownJob(ctx, j, s.Job.ID)
	case len(s.Runs) == 0:
		return failed
	case p.json():
		for _, e := range p.eventsOf(s) {
			p.printJSON(e)
		}
	default:
		p.say("job %d\n\n", s.Job.ID)
		p.printRuns(s)
		for _, o := range s.Outputs() {
			p.say("\n%s: %d bytes\n%s", o.Name, o.Size, withNewline(o.Text))
		}
		if j.OfMasters() {
			p.say("%s\n", ofMasters)
		}
	}
	if failed != nil || len(j.Workers) == 0 {
		return failed
	}
	return p.printTable(ctx, j, s.Job.ID)
}

// printTable prints what the table says of a job now.
func (p *program) printTable(ctx context.Context, j *operator.Journals, id jobnet.Whole) error {
	rows, err := operator.Rows(ctx, j.Workers, []jobnet.Whole{id})
	row, there := rows[id]
	switch {
	case err != nil:
		return fmt.Errorf("what the table says of job %d now: %w", id, err)
	case p.json():
		p.printJSON(map[string]any{"table": slices.AppendSeq([]history.Row{}, maps.Values(rows))})
	case !there:
		p.say("\nthe table has no row of job %d\n", id)
	default:
		p.say("\nthe table now: %s\n", operator.DescribeRow(row))
	}
	return nil
}

// ofMasters is said where only masters' journals are read.
const ofMasters = "this is the master's journal: the job's own history is in its worker's"

// unknownJob is the error of a job without events, which retention may have removed.
func unknownJob(ctx context.Context, j *operator.Journals, id jobnet.Whole) error {
	err := exit.With(exit.NoJob, fmt.Errorf("job %d: no journal knows it", id))
	if j.OfMasters() {
		err = fmt.Errorf("%w; %s", err, ofMasters)
	}
	for _, source := range j.Sources {
		if removed, keptErr := source.Kept(ctx); keptErr == nil && removed != nil {
			err = fmt.Errorf("%w; %w", err, operator.Named(source.Worker(), removed))
		}
	}
	return err
}

// printLengths prints how long the parts of a run took.
func (p *program) printLengths(run *operator.Run) {
	for i, length := range run.Lengths() {
		if i == 0 {
			p.say("\n")
		}
		p.say("%-7s %s\n", length.Name, length.Text)
	}
}

func (p *program) journalState() *cmd {
	var at time.Time
	var since time.Time
	var status string
	var q history.AtQuery
	c := p.journalCommand("state", "", "every job's status, now or at a time, by replay", func(ctx context.Context, j *operator.Journals, _ []string) error {
		if at.After(p.now()) {
			p.note(errors.New("--at is in the future: this is the state now"))
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
	c.FlagSet.Func("since", "only jobs that were claimed, began to run or ended, as their status says, from this time on", p.moment(&since))
	c.FlagSet.StringVar(&q.Target, "target", "", "only jobs of this target")
	c.value("n", "only the last N of them", conf.Int(&q.Last, 0, math.MaxInt))
	c.FlagSet.Var(oneOf{value: &status, allowed: statusNames()}, "status", "only jobs of this status: "+strings.Join(statusNames(), ", "))
	return c
}

func (p *program) printStates(j *operator.Journals, jobs iter.Seq2[operator.From[history.Job], error]) error {
	full := !p.brief()
	t := p.table("no jobs", "WORKER|TARGET|RESULT|-ATTEMPT", when(j.Named(), "WORKER"), "JOB", "TARGET", "STATUS", "RESULT", "ATTEMPT",
		when(p.brief(), "SINCE"), when(full, "ACCEPTED"), when(full, "RUNNING"), when(full, "ENDED"))
	return tabulate(t, jobs, func(e operator.From[history.Job]) {
		worker, job := e.Source.Worker(), e.Item
		t.put(workersJob{worker, job}, toneOfStatus(job.Status, job.Result), worker, job.Job, job.Target, string(job.Status),
			outcome(job)+p.again(job.Again), job.Attempt, p.clock(job.Changed()), p.stamp(job.Accepted), p.stamp(job.Running), p.stamp(job.Ended))
	})
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
