package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/master"
	jobnet "jobd/net"
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
// Rows are brought up to date by the batch, each step of it in one transaction: giving back, claiming, and the end.
// Before the first row is changed the journal says that somebody wants it, and at the end what was done.
//
// A row is waiting again after its end where somebody set it back by hand; that it was done may show in time_finished, and
// then it is refused. Killed between two steps, the row bears the token of the journal's claim, and the next
// reapply goes on from there.

// reapplying is one reapply.
type reapplying struct {
	journalHandlers
	reader *journal.Reader
	moved  *moved
	query  history.ReapplyQuery
	yield  func(any) error

	told journal.Reapplied // its first event
	rows int               // that were changed
	left int               // that were refused
}

func (h journalHandlers) reapply(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	var q history.ReapplyQuery
	if err := decode(request, &q); err != nil {
		return nil, err
	}
	if q.Journal != "" && !filepath.IsAbs(q.Journal) {
		return nil, jobnet.Refusal("'journal' must be the absolute path of a folder on the worker's machine")
	}
	by := master.Asker(ctx, link, request)
	return h.open(ctx, link, func(ctx context.Context, r *journal.Reader, yield func(any) error) error {
		p := &reapplying{journalHandlers: h, reader: r, query: q, yield: yield, told: journal.Reapplied{By: cut(by)}}
		if q.Journal == "" {
			return p.run(ctx)
		}
		lost, err := openLost(q.Journal)
		if err != nil {
			return err
		}
		defer lost.Close()
		p.reader = lost
		return p.run(ctx)
	})
}

// openLost opens the journal of a worker that is gone.
func openLost(dir string) (*journal.Reader, error) {
	r, err := journal.OpenReader(dir)
	if err != nil {
		return nil, jobnet.Refusef("there is no journal in folder %s of this machine that this worker can read", dir)
	}
	r.GiveWay()
	return r, nil
}

func (p *reapplying) run(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	switch {
	case p.query.Unknown:
		unknown, err := p.unknown(ctx)
		if err != nil {
			return err
		}
		return p.tellUnknown(unknown)
	case !p.query.AcceptUnknown && !p.query.DryRun:
		if err := p.refuseUnknown(ctx); err != nil {
			return err
		}
	}
	p.log.Info("reapplying the journal to the table", "by", p.told.By, "since", p.query.Since, "dry_run", p.query.DryRun, "journal", p.query.Journal)
	err := p.disagreeing(ctx, p.reader, p.moved, p.query.Since, func(batch []disagreement) error { return p.bring(ctx, batch) })
	return errors.Join(err, p.journalEnd())
}

// begin finds out what there is to be applied.
func (p *reapplying) begin(ctx context.Context) (err error) {
	if p.moved = (&moved{}); p.query.Journal == "" {
		if p.moved, err = p.movedSince(ctx, p.reader); err != nil {
			return err
		}
	}
	if p.told.From, err = p.reader.First(ctx); err != nil {
		return err
	}
	anchor, err := p.reader.Anchor(ctx)
	if err != nil {
		return err
	}
	p.told.To = anchor.Seq
	if !p.query.Since.IsZero() {
		p.told.Since = p.query.Since.UnixMicro()
	}
	if p.query.Journal != "" {
		p.told.Hash = anchor.Hash.String()
		p.told.Journal, err = nameIn(ctx, p.reader)
	}
	return err
}

// nameIn is the worker's name that a journal tells; that of its folder where it has none.
func nameIn(ctx context.Context, r *journal.Reader) (string, error) {
	for e, err := range r.Events(ctx, journal.Filter{Kinds: []journal.Kind{journal.KindOpened}, Last: 1}) {
		if err != nil {
			return "", err
		}
		if opened, ok := e.Payload.(journal.Opened); ok {
			return opened.Name, nil
		}
	}
	return "a lost worker", nil
}

// journalBegin journals, once, that rows are about to be changed.
func (p *reapplying) journalBegin() error {
	if p.rows > 0 || p.told.Ended {
		return nil
	}
	if err := p.worker.Note(p.told); err != nil {
		return p.notJournalled(err)
	}
	p.told.Ended = true // what is told next is the end
	return nil
}

// journalEnd journals what was done.
func (p *reapplying) journalEnd() error {
	if !p.told.Ended {
		return nil
	}
	p.told.Rows, p.told.Refused, p.told.Notes = p.rows, p.left, ""
	return p.notJournalled(p.worker.Note(p.told))
}

// notJournalled is what a client hears where the journal does not take what is to be told.
func (p *reapplying) notJournalled(err error) error {
	if err == nil {
		return nil
	}
	p.log.Warn("reapply could not be journalled", "error", err)
	return jobnet.Refusal("it could not be journalled: " + err.Error())
}

// differs tells whether a job's row still does not say what the journal says.
func (p *reapplying) differs(ctx context.Context, job journal.Job) (differs bool) {
	err := p.lookAgain(ctx, p.reader, job, func(disagreement) error {
		differs = true
		return nil
	})
	return differs || err != nil
}

// bring brings rows to what the journal says, and tells of each what was done, or why it is left as found.
func (p *reapplying) bring(ctx context.Context, list []disagreement) error {
	if p.query.DryRun { // only its row's lock tells what becomes of a claim under way
		list = slices.DeleteFunc(list, func(d disagreement) bool { return d.claiming })
	}
	refused, err := p.bringAll(ctx, list)
	if err != nil {
		return err
	}
	for _, d := range list {
		why := refused[d.job.ID]
		if why == changedMeanwhile && p.moved.reader != nil && !p.differs(ctx, d.job) {
			continue // the mirror was quicker
		}
		did := history.Reapplied{Job: jobnet.Whole(d.job.ID), Found: rowOf(d.row), Want: wanted(d.job), Did: history.DidApply, Journal: p.told.Journal}
		switch {
		case why != "":
			did.Did, did.Reason = history.DidRefuse, why
			p.left++
		case p.query.DryRun:
			did.Did = history.WouldApply
		default:
			p.rows++
		}
		if !p.query.DryRun {
			p.log.Info("reapplied", "by", p.told.By, "job", did.Job, "did", did.Did, "reason", did.Reason)
		}
		if err := p.yield(did); err != nil {
			return err
		}
	}
	return nil
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
