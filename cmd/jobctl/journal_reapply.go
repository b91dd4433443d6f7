package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/journal"
	"jobd/net/api"
)

// errNeedsTable says why a folder is not enough.
var errNeedsTable = errors.New("the table is reached through the worker: omit --journal, and name the worker with --host and --port, or use --master")

func (p *program) journalDiff() *cmd {
	var q history.DiffQuery
	c := p.journalCommand("diff", "", "rows that differ from the journal: not written yet, or changed by others", func(ctx context.Context, j *operator.Journals, _ []string) error {
		if len(j.Workers) == 0 && len(j.Sources) > 0 {
			return wrongUsage("journal diff: %w", errNeedsTable)
		}
		t := p.table("no row differs", rowElastic, "WORKER", "JOB", "CAUSE", "JOURNAL", "TABLE", "REASON")
		changed := 0
		err := eachItem(ctx, j, j.Workers, api.JournalDiff, q, func(w *operator.Worker, d history.Difference) {
			if !q.Selects(d) {
				return // an older worker tells of all
			}
			tone := odd
			if d.Cause == history.CauseChanged {
				changed++
				tone = bad
			}
			form := struct {
				Worker string `json:"worker,omitempty"`
				history.Difference
			}{w.Name, d}
			t.put(form, tone, w.Name, d.Job, d.Cause, describedRow(d.Want, notTheirs), describedRow(d.Found, noRow), d.Reason)
		})
		if err = t.end(err); err == nil && changed > 0 {
			err = exit.With(exit.Failure, fmt.Errorf("rows that somebody else changed: %d", changed))
		}
		return err
	})
	c.FlagSet.BoolVar(&q.IgnoreDeleted, "ignore-deleted", false, "ignore rows that were deleted after their jobs ended: for a table that is pruned")
	return c
}

// eachItem has the items of workers' streams visited; a worker that fails is named, and the others go on.
func eachItem[T any](ctx context.Context, j *operator.Journals, workers []*operator.Worker, typ string, query any, visit func(*operator.Worker, T)) error {
	for _, w := range workers {
		for item, err := range operator.Stream[T](ctx, w, typ, query) {
			if err == nil {
				visit(w, item)
			} else if err = j.Fail(w, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowElastic is the columns of rows that a narrow terminal cuts.
const rowElastic = "WORKER|JOURNAL|TABLE|REASON"

// What is said in place of a row.
const (
	notTheirs = "not this worker's"
	noRow     = "no row"
)

// describedRow is a row in words, or what is said where there is none.
func describedRow(row *history.Row, none string) string {
	if row == nil {
		return none
	}
	return operator.DescribeRow(*row)
}

func (p *program) journalReapply() *cmd {
	var since time.Time
	var lost []string
	var may consent
	accept := false
	c := command("journal reapply [--since TIME] [--journal DIR]", "after the table was restored from a backup: bring its rows up to what the journals know", func(ctx context.Context, args []string) error {
		return p.read(ctx, nil, func(ctx context.Context, j *operator.Journals) error {
			run := func(dry bool) (brought int, err error) {
				r := reapply{
					program: p, journals: j, query: history.ReapplyQuery{Since: since, DryRun: dry, AcceptUnknown: true},
					done: p.table("no row differs", rowElastic, "WORKER", "JOB", "DID", "JOURNAL", "TABLE", "REASON"),
				}
				if err = r.all(ctx, lost, accept); err == nil && r.refused > 0 {
					err = exit.With(exit.Failure, fmt.Errorf("rows that were refused, and left as found: %d", r.refused))
				}
				return r.brought, err
			}
			if !may.dry && !may.yes {
				would, err := run(true)
				if would == 0 {
					return err
				}
				if err := p.confirm(ctx, fmt.Sprintf("%d rows would be updated to what the journals say.", would)); err != nil {
					return err
				}
			}
			_, err := run(may.dry)
			return err
		})
	})
	c.FlagSet.Func("since", "only jobs with events from this time on: the time of the backup", p.moment(&since))
	c.FlagSet.Func("journal", "the journal of a lost worker, a folder on the machine of a worker; more than once for several", folders(&lost))
	may.flags(c, "")
	c.FlagSet.BoolVar(&accept, "accept-unknown", false, "go on although no journal knows whether some waiting rows have run")
	return c
}

// reapply is one reapply by all workers.
type reapply struct {
	*program
	journals *operator.Journals
	query    history.ReapplyQuery
	done     *table
	brought  int // rows that were, or would be
	refused  int
}

// all has the workers reapply their own journals, and then one of them each journal of a worker
// that is gone, unless there are rows that may have run before all that.
func (p *reapply) all(ctx context.Context, folders []string, accept bool) error {
	lost, err := p.findLost(ctx, folders)
	if err == nil {
		err = p.checkUnknown(ctx, lost, accept)
	}
	if err == nil {
		p.query.Retried, err = p.retried(ctx)
	}
	if err == nil {
		err = p.own(ctx)
	}
	for _, one := range lost {
		if err == nil {
			query := p.query
			query.Journal = one.folder
			err = eachItem(ctx, p.journals, []*operator.Worker{one.reader}, api.JournalReapply, query, p.printRow)
		}
	}
	return p.done.end(err)
}

// own has all workers reapply their journals. Where one gave a row back that another was refused,
// since the row bore the first one's claim, all are asked again: what the other knows of the row
// applies now.
func (p *reapply) own(ctx context.Context) error {
	for {
		refused := map[*operator.Worker][]history.Reapplied{}
		gaveBack := false
		err := eachItem(ctx, p.journals, p.journals.Workers, api.JournalReapply, p.query, func(w *operator.Worker, r history.Reapplied) {
			if r.Did == history.DidRefuse {
				refused[w] = append(refused[w], r)
				return
			}
			gaveBack = gaveBack || r.Did == history.DidApply && r.Want == nil
			p.printRow(w, r)
		})
		if err == nil && gaveBack && len(refused) > 0 {
			continue
		}
		for _, w := range p.journals.Workers {
			for _, r := range refused[w] {
				p.printRow(w, r)
			}
		}
		return err
	}
}

// printRow prints what was done with a row.
func (p *reapply) printRow(w *operator.Worker, r history.Reapplied) {
	worker, tone := w.Name, good
	if r.Did == history.DidRefuse {
		p.refused++
		tone = bad
	} else {
		p.brought++
	}
	if r.Journal != "" {
		worker = r.Journal
	}
	form := struct {
		Worker string `json:"worker,omitempty"`
		history.Reapplied
	}{worker, r}
	p.done.put(form, tone, worker, r.Job, r.Did, describedRow(r.Want, notTheirs), describedRow(r.Found, noRow), r.Reason)
}

// lostJournal is the journal of a worker that is gone, and the worker that reads it.
type lostJournal struct {
	folder string
	reader *operator.Worker
}

// findLost finds for each folder a worker that can read it.
func (p *reapply) findLost(ctx context.Context, folders []string) (lost []lostJournal, err error) {
	for _, dir := range folders {
		folder, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		var errs []error
		for _, r := range p.journals.Workers {
			_, err := p.unknown(ctx, r, history.ReapplyQuery{Journal: folder, Among: []int64{0}})
			if err == nil {
				lost = append(lost, lostJournal{folder, r})
				errs = nil
				break
			}
			errs = append(errs, r.Named(err))
		}
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("--journal %s: a worker must be able to read it: copy it to a worker's machine: %w", dir, err)
		}
	}
	return lost, nil
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
			return nil, fmt.Errorf("more than %d jobs were retried, which are too many to take into account: narrow it with --since; nothing was changed", mostRetried)
		}
	}
	return ended, nil
}

// unknownPage is how many rows are asked about in one go.
const unknownPage = 10_000

// errUnknown says how to go on.
var errUnknown = errors.New("nothing was changed: some waiting rows may have run already, and would run again; " +
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
	fmt.Fprintf(p.err, "jobctl: %d waiting rows may have run already, and no journal knows them: %s\n", len(ids), operator.SomeIDs(ids[:min(len(ids), unknownPage)], max(len(ids)-unknownPage, 0)))
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
	why := "it has no earlier events: the worker is new, or lost its journal"
	if told.Removed {
		why = "retention has removed earlier events"
	}
	return fmt.Sprintf("waiting rows that are older than the history of %s, which begins %s: %d; %s", clean(told.Name), p.clock(told.Begins), len(told.Rows), why)
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
