package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"slices"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Findings implements store.Inspector. A file that does not exist is not made: then only its folder
// is looked at.
func (t *Table) Findings(ctx context.Context, targets []string) ([]store.Finding, error) {
	if found, isNew := t.inspectFile(); isNew || len(found) > 0 {
		return found, nil
	}
	var findings []store.Finding
	err := t.transact(ctx, func(ctx context.Context, tx *sql.Tx) (_ bool, err error) {
		findings, _, err = t.lookThrough(ctx, tx, targets)
		return false, err
	})
	if err != nil && len(findings) == 0 {
		findings = append(findings, t.found(err))
	}
	return findings, err
}

// lookThrough examines the table in a transaction, faults first; isNew tells that the file is
// empty. An error is among the findings.
func (t *Table) lookThrough(ctx context.Context, tx *sql.Tx, targets []string) (findings []store.Finding, isNew bool, err error) {
	var things int
	err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_schema").Scan(&things)
	if err == nil && things == 0 {
		return nil, true, nil
	}
	seen := &inspection{}
	if err == nil {
		seen, err = t.inspect(ctx, tx)
	}
	if err == nil && !seen.IsFaulty() {
		err = t.findNames(ctx, tx, targets, seen)
	}
	if err != nil {
		seen.List = append(seen.List, t.found(err))
	}
	rule.FaultsFirst(seen.List)
	return seen.List, false, err
}

// found is an error as a finding.
func (t *Table) found(err error) store.Finding {
	return store.Finding{Severity: store.Fault, Where: "file " + t.path, What: err.Error()}
}

// findNames adds the targets that can't be served.
func (t *Table) findNames(ctx context.Context, tx *sql.Tx, targets []string, seen *inspection) error {
	unfit, err := t.alike(ctx, tx, targets)
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		seen.Unserved(name, unfit[name], "")
	}
	return err
}
