package mysql

import (
	"fmt"

	"jobd/store/internal/rule"
)

// decided is the updates that a claim consists of.
func (t *Table) decided(verdicts []rule.Verdict) []statement {
	updates := make([]statement, 0, len(verdicts)+1)
	for _, verdict := range verdicts {
		updates = append(updates, t.update(verdict))
	}
	return updates
}

// update is the statement that makes of rows what a claim decided.
func (t *Table) update(verdict rule.Verdict) statement {
	set, args := rule.Set(verdict.Write(t.config.ClaimColumn), quote)
	return statement{
		query: "UPDATE " + t.name.quoted() + " SET " + set + " WHERE id IN (" + rule.List(verdict.Jobs) + ") AND " + rule.IsFree + "; ",
		args:  args,
	}
}

// complete tells whether the updates of a claim met all of its rows.
func complete(verdicts []rule.Verdict, matched []int64) error {
	for i, verdict := range verdicts {
		if matched[i] != int64(len(verdict.Jobs)) {
			return fmt.Errorf("the transaction lost its locks: %d of %d rows were updated", matched[i], len(verdict.Jobs))
		}
	}
	return nil
}
