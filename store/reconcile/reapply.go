package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"jobd/journal"
	"jobd/store"
)

// Reapply is the wish to have rows brought back to what a journal says.
type Reapply struct {
	Config
	Logger *slog.Logger

	By      string    // who wants it
	Since   time.Time // only jobs to which something happened from this time on; zero: all
	Folder  string    // the folder of the lost worker's journal, for the log; "": the worker's own
	Worker  string    // the worker's name
	Targets []string  // that the worker serves: rows of these may be unknown

	DryRun bool // only show what would be done
	// Retried are rows that were set back after an end, as other workers' journals say: the
	// time_finished of that end. What this journal knows of it, or of an earlier one, is over.
	Retried map[int64]int64

	AcceptUnknown bool    // go on although nobody can tell of some rows that wait whether they have run
	Among         []int64 // for Unknown: only these rows, whenever they were created; nil: all

	// Note makes an event part of the worker's own journal.
	Note func(journal.Reapplied) error
	// Visit is told of each row that differed, what was done with it.
	Visit func(Result) error
}

// What is done with a row that differs, in the words that clients get.
const (
	didApply   = "applied"
	wouldApply = "would apply" // in a dry run
	didRefuse  = "refused"     // it is left as found
)

// Result is what was done with a row that differed.
type Result struct {
	Difference
	Did     string
	Refusal string // why it was left as found
	Journal string // the name of the lost worker whose journal says so; "": the worker's own
}

// reapplying is one reapply under way.
type reapplying struct {
	wish *Reapply
	*comparison
	event   journal.Reapplied // the next one to be journalled
	changed int               // rows
	refused int               // rows
}

// begin finds out what to reapply.
func (r *Reapply) begin(ctx context.Context) (*reapplying, error) {
	c, err := begin(ctx, r.Config)
	if err != nil {
		return nil, err
	}
	p := &reapplying{wish: r, comparison: c, event: journal.Reapplied{By: r.By}}
	if p.event.From, err = r.Journal.First(ctx); err != nil {
		return nil, err
	}
	anchor, err := r.Journal.Anchor(ctx)
	if err != nil {
		return nil, err
	}
	p.event.To = anchor.Seq
	if !r.Since.IsZero() {
		p.event.Since = r.Since.UnixMicro()
	}
	if p.tail == nil {
		p.event.Hash = anchor.Hash.String()
		p.event.Journal, err = nameIn(ctx, r.Journal)
	}
	return p, err
}

// noteBeginning journals, once, that rows are about to be changed.
func (p *reapplying) noteBeginning() error {
	if p.changed > 0 || p.event.Ended {
		return nil
	}
	if err := p.wish.Note(p.event); err != nil {
		return err
	}
	p.event.Ended = true // the next event is the end
	return nil
}

// noteEnd journals what was done.
func (p *reapplying) noteEnd() error {
	if !p.event.Ended {
		return nil
	}
	p.event.Rows, p.event.Refused = p.changed, p.refused
	return p.wish.Note(p.event)
}

// Run brings rows back. Where rows wait of which nobody can tell whether they have run, and that
// was not accepted, it fails with an *UnknownError before any row is changed.
func (r *Reapply) Run(ctx context.Context) error {
	p, err := r.begin(ctx)
	if err != nil {
		return err
	}
	if !r.AcceptUnknown && !r.DryRun {
		if err := p.refuseUnknown(ctx); err != nil {
			return err
		}
	}
	r.Logger.Info("reapplying the journal to the table", "by", r.By, "since", r.Since, "dry_run", r.DryRun, "journal", r.Folder)
	err = p.differences(ctx, r.Since, func(batch []Difference) error { return p.bring(ctx, batch) })
	return errors.Join(err, p.noteEnd())
}

// bring brings rows back, and tells of each what was done.
func (p *reapplying) bring(ctx context.Context, list []Difference) error {
	if p.wish.DryRun { // only its row's lock tells what becomes of a claim under way
		list = slices.DeleteFunc(list, func(d Difference) bool { return d.claiming })
	}
	refused, err := p.bringAll(ctx, list)
	if err != nil {
		return err
	}
	for _, d := range list {
		result := Result{Difference: d, Did: didApply, Refusal: refused[d.Job.ID], Journal: p.event.Journal}
		if result.Refusal == store.ChangedMeanwhile && p.tail != nil {
			if differs, err := p.compare(ctx, []journal.Job{d.Job}); err == nil && len(differs) == 0 {
				continue // the mirror was quicker
			}
		}
		switch {
		case result.Refusal != "":
			result.Did = didRefuse
			p.refused++
		case p.wish.DryRun:
			result.Did = wouldApply
		default:
			p.changed++
		}
		if !p.wish.DryRun {
			p.wish.Logger.Info("reapplied", "by", p.wish.By, "job", d.Job.ID, "did", result.Did, "reason", result.Refusal)
		}
		if err := p.wish.Visit(result); err != nil {
			return err
		}
	}
	return nil
}

// heldNow begins why a row is left that can be reapplied later.
const heldNow = "it can't be changed now; reapply again later: "

// leftUnderWay is why a job of a worker that is gone is left alone: nobody would bring it to an
// end.
const leftUnderWay = "it was under way when that journal ends: whether it ran is not known"

// retriedElsewhere is why a row is left alone that this journal knows to have ended.
const retriedElsewhere = "another worker's journal says that it was retried since"

// bringAll brings rows back, and tells why others are left as found.
func (p *reapplying) bringAll(ctx context.Context, list []Difference) (refused map[int64]string, err error) {
	refused = make(map[int64]string)
	var past []store.Past
	for _, d := range list {
		stale, why, err := p.judge(ctx, d)
		if err != nil {
			return nil, err
		}
		if why == "" {
			past = append(past, store.Past{Job: d.Job, Row: d.Row, Stale: stale})
		} else {
			refused[d.Job.ID] = why
		}
	}
	if p.wish.DryRun || len(past) == 0 {
		return refused, nil
	}
	if err := p.noteBeginning(); err != nil {
		return nil, err
	}
	read := ends{}
	bringing := store.Bringing{
		Table: p.Table, Tries: 1, Later: heldNow, Left: refused, Won: map[int64]bool{}, Free: p.free,
		End: func(ctx context.Context, past store.Past) (*journal.Done, error) {
			return read.of(ctx, p.Journal, past.Job)
		},
	}
	if err := bringing.Rows(ctx, past); err != nil {
		return refused, tableFailed(err)
	}
	return refused, nil
}

// judge finds out whether the journal's story goes on from what a row says, and why not; stale tells that
// the row bears an earlier claim of its job, or is delayed and reads as one has found it.
func (p *reapplying) judge(ctx context.Context, d Difference) (stale bool, why string, err error) {
	job, row := d.Job, d.Row
	if row != nil && (row.UnderWay() && row.Owner != job.Token || row.Status == journal.RowDelayed) {
		if stale, err = found(ctx, p.Journal, job.ID, row); err != nil {
			return false, "", err
		}
	}
	why = store.Refusal(job, row, stale)
	if why == "" && job.Status == journal.StatusDone && job.Ended.Unix() <= p.wish.Retried[job.ID] {
		why = retriedElsewhere
	}
	if why == "" && p.tail == nil && !job.Status.Ended() {
		why = leftUnderWay
	}
	return stale, why, nil
}

// free tells whether a locked row waits still for the run that it was judged by, and its claim is still
// what the journal says. A worker that is in doubt about its commit finds its token. A claim that it
// gave up meanwhile is none any more.
func (p *reapplying) free(ctx context.Context, past store.Past, row journal.Row) (bool, error) {
	if err := p.tail.readOn(ctx); err != nil {
		return false, err
	}
	waits := row.Status != journal.RowDelayed || store.AsFound(past.Job, row.Plan, row.Finished) ||
		past.Row.Status == journal.RowDelayed && store.SameRun(past.Row.Plan, row.Plan)
	if row.Target != past.Row.Target || !waits || !p.tail.has(past.Job.ID) {
		return row.Target == past.Row.Target && waits, nil
	}
	now, _, err := replay(ctx, p.Journal, past.Job.ID)
	return err == nil && now.Status != journal.StatusReleased && now.Status != journal.StatusRetried &&
		(now.Status == journal.StatusNone || now.Token == past.Job.Token), err
}

// tableFailed is the error of a table that can't be used now.
func tableFailed(err error) error { return &TableError{"reapplying to the table", err} }
