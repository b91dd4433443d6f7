package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"jobd/journal"
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

	DryRun        bool    // only tell what would be done
	AcceptUnknown bool    // go on although nobody can tell of some rows that wait whether they have run
	Among         []int64 // for Unknown: only these rows, whenever they were created; nil: all

	// Note makes an event part of the worker's own journal.
	Note func(journal.Reapplied) error
	// Visit is told of each row that differed, what was done with it.
	Visit func(Result) error
}

// What is done with a row that differs.
const (
	Applied    = "applied"
	WouldApply = "would apply" // in a dry run
	Refused    = "refused"     // it is left as found
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

// begin finds out what there is to be reapplied.
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
		result := Result{Difference: d, Did: Applied, Refusal: refused[d.Job.ID], Journal: p.event.Journal}
		if result.Refusal == changedMeanwhile && p.tail != nil {
			if _, differs, err := p.lookAtMoving(ctx, d.Job); err == nil && !differs {
				continue // the mirror was quicker
			}
		}
		switch {
		case result.Refusal != "":
			result.Did = Refused
			p.refused++
		case p.wish.DryRun:
			result.Did = WouldApply
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

// bringAll brings rows back, and tells why others are left as found.
func (p *reapplying) bringAll(ctx context.Context, list []Difference) (refused map[int64]string, err error) {
	b := batch{reapplying: p, refused: make(map[int64]string), stale: make(map[int64]bool)}
	for _, d := range list {
		if err := b.judge(ctx, d); err != nil {
			return nil, err
		}
	}
	if p.wish.DryRun || len(b.refused) == len(list) {
		return b.refused, nil
	}
	if err := p.noteBeginning(); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, []Difference) error{b.giveBack, b.claim, b.finish} {
		if err := step(ctx, b.accepted(list)); err != nil {
			return nil, err
		}
	}
	return b.refused, nil
}
