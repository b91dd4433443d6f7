package mysql

import (
	"fmt"

	"jobd/store/internal/rule"
)

// decided is the updates that a claim consists of.
func (l *layout) decided(verdicts []rule.Verdict) []statement {
	updates := make([]statement, 0, len(verdicts)+1)
	for _, verdict := range verdicts {
		updates = append(updates, l.decision(verdict))
	}
	return updates
}

// decision is the statement that makes of rows what a claim decided.
func (l *layout) decision(verdict rule.Verdict) statement {
	set, args := rule.Set(verdict.Write(writing{l, whole}), quote)
	return statement{
		query: "UPDATE " + l.table + " SET " + set + " WHERE id IN (" + rule.List(verdict.Jobs) + ") AND " + verdict.Guard() + "; ",
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
