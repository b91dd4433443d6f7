package reconcile

import (
	"context"
	"errors"
	"slices"

	"jobd/journal"
	"jobd/store"
)

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
