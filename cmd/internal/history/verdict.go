package history

import (
	"context"
	"errors"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// Verdict is what a verification found.
type Verdict = verify.Audited

// Audit verifies a journal and compares it with anchors; progress is told now and then which event is verified. Its error is
// about the reading: what is wrong with the journal is in the verdict.
func Audit(ctx context.Context, r *replay.Reader, anchors []journal.Anchor, progress func(seq uint64)) (Verdict, error) {
	audited, err := verify.Audit(ctx, r.Folder(), anchors, progress)
	if damaged := new(journal.DamagedError); err != nil && !errors.As(err, &damaged) {
		return Verdict{}, err
	}
	return *audited, nil
}

// AuditStep is an item of a verification's stream: how far it is, and at last what it found.
type AuditStep struct {
	Verified uint64   `json:"verified"`
	Verdict  *Verdict `json:"verdict,omitempty"`
}

// AnchorAnswer is the answer to journal-anchor: the newest event's number and hash, and where the history begins.
type AnchorAnswer struct {
	Seq     uint64    `json:"seq"`
	Hash    string    `json:"hash"`
	First   uint64    `json:"first,omitempty"`        // the oldest event that is kept, where retention has removed any
	Removed time.Time `json:"removed_until,omitzero"` // when the newest event happened that was removed
}

// Kept is what the answer says of retention; nil where nothing was removed.
func (a AnchorAnswer) Kept() *journal.RemovedError {
	if a.First == 0 {
		return nil
	}
	return &journal.RemovedError{First: a.First, Since: a.Removed}
}

// Anchor is the answer of a journal.
func Anchor(ctx context.Context, r *replay.Reader) (AnchorAnswer, error) {
	removed, err := r.Kept(ctx)
	if err != nil {
		return AnchorAnswer{}, err
	}
	anchor, err := r.Anchor(ctx)
	answer := AnchorAnswer{Seq: anchor.Seq, Hash: anchor.Hash.String()}
	if removed != nil {
		answer.First, answer.Removed = removed.First, removed.Since
	}
	return answer, err
}
