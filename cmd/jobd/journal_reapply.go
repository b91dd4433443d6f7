package main

import (
	"context"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/store"
)

// This file brings a table that was restored from an older backup up to what the journal knows. It has no
// update of its own: it goes the way of a claim and of the mirror, with the token that the journal has for the claim,
// and so with their guards:
//
//	row says                        journal's newest claim of the job           done
//	waiting, manual                 accepted, running or done                   claimed with its token, then as below
//	accepted, running, its token    accepted, running or done                   brought to it
//	accepted, running, a token of   any; the row's claim is an older one        given back, then as above
//	  an earlier claim of the job
//	waiting, manual                 ignored                                     ignored
//	created later than the claim    any                                         refused: another job with the same id
//	anything else                                                               refused, and left as found
//
// A row is waiting again after its end where somebody set it back by hand; that it was done may show in time_finished, and
// then it is refused. Killed between two steps, the row bears the token of the journal's claim, and the next
// reapply goes on from there.

func (h journalHandlers) reapply(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.ReapplyQuery
	if err := decode(request, &q); err != nil {
		return nil, err
	}
	by := master.Asker(ctx, link, request)
	return h.open(ctx, link, func(ctx context.Context, r *journal.Reader, yield func(any) error) error {
		h.log.Info("reapplying the journal to the table", "by", by, "since", q.Since, "dry_run", q.DryRun)
		return h.disagreeing(ctx, r, q.Since, func(d disagreement) error {
			if d.claiming && q.DryRun {
				return nil // only its row's lock tells what becomes of a claim under way
			}
			did := history.Reapplied{Job: jobnet.Whole(d.job.ID), Found: rowOf(d.row), Want: wanted(d.job), Did: history.DidApply}
			refused, err := h.bring(ctx, r, d, q.DryRun)
			if err == nil && refused == changedMeanwhile && !h.differs(ctx, r, d.job) {
				return nil // the mirror was quicker
			}
			switch {
			case err != nil:
				return err
			case refused != "":
				did.Did, did.Reason = history.DidRefuse, refused
			case q.DryRun:
				did.Did = history.WouldApply
			}
			if !q.DryRun {
				h.log.Info("reapplied", "by", by, "job", did.Job, "did", did.Did, "reason", did.Reason)
			}
			return yield(did)
		})
	})
}

// differs tells whether a job's row still does not say what the journal says.
func (h journalHandlers) differs(ctx context.Context, r *journal.Reader, job journal.Job) (differs bool) {
	err := h.lookAgain(ctx, r, job, func(disagreement) error {
		differs = true
		return nil
	})
	return differs || err != nil
}

// bring brings one row to what the journal says, or tells why it is left as found.
func (h journalHandlers) bring(ctx context.Context, r *journal.Reader, d disagreement, dry bool) (refused string, err error) {
	job, row := d.job, d.row
	stale := false // the row bears an earlier claim of this job
	if row != nil && row.UnderWay() && row.Owner != job.Token {
		if stale, err = claimedBefore(ctx, r, job.ID, row.Owner); err != nil {
			return "", err
		}
	}
	if refused = store.Refusal(job, row, stale); refused != "" || dry {
		return refused, nil
	}
	if stale || job.Status == journal.StatusReleased {
		if refused, err = h.applyChange(ctx, store.GiveBack(job, row)); err != nil || refused != "" || job.Status == journal.StatusReleased {
			return refused, err
		}
	}
	if stale || !row.UnderWay() {
		if refused, err = h.claimAgain(ctx, r, job, row); err != nil || refused != "" || job.Status == journal.StatusIgnored {
			return refused, err
		}
	}
	change, err := changeOf(ctx, r, job)
	switch {
	case err != nil || change.Status == "":
		return "", err
	case change.Status == journal.RowDone && change.Done == nil:
		return "how it ended is not in the journal any more", nil
	}
	return h.applyChange(ctx, change)
}

// claimedBefore tells whether a token is of a claim of the job in this journal.
func claimedBefore(ctx context.Context, r *journal.Reader, id int64, token string) (bool, error) {
	if token == "" {
		return false, nil
	}
	for e, err := range r.Events(ctx, journal.Filter{Job: id, Kinds: []journal.Kind{journal.KindAccepted}}) {
		if err != nil {
			return false, err
		}
		if claim, ok := e.Payload.(journal.Accepted); ok && claim.Token == token {
			return true, nil
		}
	}
	return false, nil
}

// claimAgain makes a row that nobody has what it was after the journal's claim, which is durable already: nothing is
// journalled. A row that somebody else holds, a claim under way among them, is left for another reapply. A worker that is in
// doubt about its commit finds its token. A claim that it gave up meanwhile is none any more.
func (h journalHandlers) claimAgain(ctx context.Context, r *journal.Reader, job journal.Job, seen *store.Seen) (refused string, err error) {
	refused = changedMeanwhile
	locked, err := h.table.ClaimManual(ctx, []int64{job.ID}, []string{job.Target}, func(rows []journal.Row) ([]journal.Event, error) {
		free := len(rows) == 1 && (rows[0].Status == journal.RowWaiting || rows[0].Status == journal.RowManual)
		if !free || rows[0].Target != seen.Target {
			return nil, nil
		}
		now, _, err := replayed(ctx, r, job.ID)
		if err != nil || now.Status == journal.StatusReleased || now.Status != journal.StatusNone && now.Token != job.Token {
			return nil, err
		}
		refused = ""
		return []journal.Event{{Job: job.ID, Payload: store.ClaimOf(job)}}, nil
	})
	switch {
	case err != nil && !store.IsAway(err):
		return heldNow + err.Error(), nil
	case len(locked) > 0:
		refused = heldNow + "somebody else holds a lock on it"
	}
	return refused, h.tableFailed(err)
}

const changedMeanwhile = "somebody changed it meanwhile"

// heldNow begins why a row is left that can be reapplied later.
const heldNow = "it can't be changed now; reapply again later: "

// changeOf is what the mirror would make of a job's row; nothing for a job that is accepted, since the claim did that already.
func changeOf(ctx context.Context, r *journal.Reader, job journal.Job) (store.Change, error) {
	change := store.Change{
		Job: job.ID, Target: job.Target, Token: job.Token, Accepted: job.Accepted, Start: job.Running,
	}
	switch job.Status {
	case journal.StatusStarting, journal.StatusRunning:
		change.Status = journal.RowRunning
	case journal.StatusDone:
		change.Status, change.Finish = journal.RowDone, job.Ended
		newest := journal.Filter{Job: job.ID, Kinds: []journal.Kind{journal.KindDone}, Last: 1, Output: true}
		for e, err := range r.Events(ctx, newest) {
			if err != nil {
				return change, err
			}
			if done, ok := e.Payload.(journal.Done); ok {
				change.Done = &done
			}
		}
	}
	return change, nil
}

// applyChange applies one change with the mirror's guards.
func (h journalHandlers) applyChange(ctx context.Context, change store.Change) (refused string, err error) {
	outcomes, err := h.table.Apply(ctx, []store.Change{change})
	switch {
	case err != nil && !store.IsAway(err):
		return heldNow + err.Error(), nil
	case err != nil:
		return "", h.tableFailed(err)
	}
	switch outcomes[0].Fate {
	case store.Lost:
		return changedMeanwhile, nil
	case store.Refused:
		return "the server takes it in no form: " + outcomes[0].Note, nil
	case store.Held:
		return heldNow + outcomes[0].Note, nil
	}
	return "", nil
}

// tableFailed logs a failure of the table, and gives what clients hear of it.
func (h journalHandlers) tableFailed(err error) error {
	if err == nil {
		return nil
	}
	h.log.Warn("reapplying to the table failed", "error", err)
	return errTable
}
