package mysql

import (
	"context"
	"maps"
	"slices"

	"jobd/store"
	"jobd/store/internal/rule"
)

// Findings implements store.Inspector.
func (t *Table) Findings(ctx context.Context, targets []string) ([]store.Finding, error) {
	found := &inspection{}
	err := t.retry(ctx, func() (err error) {
		found, err = t.inspect(ctx)
		return err
	})
	if err == nil && !found.IsFaulty() {
		t.layout.Store(&found.layout)
		err = t.findNames(ctx, targets, found)
	}
	findings := found.List
	if err != nil {
		findings = append(findings, t.findingOf(err))
		err = t.explained(err)
	}
	rule.FaultsFirst(findings)
	return findings, err
}

// findNames adds the targets that can't be served.
func (t *Table) findNames(ctx context.Context, targets []string, found *inspection) error {
	unfit, err := t.judgeNames(ctx, targets)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		found.Unserved(name, unfit[name].why, unfit[name].remedy)
	}
	return nil
}
