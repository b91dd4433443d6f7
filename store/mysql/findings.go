package mysql

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"jobd/store"
)

// Findings implements store.Inspector.
func (t *Table) Findings(ctx context.Context, targets []string) ([]store.Finding, error) {
	var found *inspection
	err := t.retry(ctx, func() (err error) {
		found, err = t.inspect(ctx)
		return err
	})
	var findings []store.Finding
	if found != nil {
		findings = append(found.findings, found.unseen...)
	}
	if err == nil && !found.isFaulty() {
		t.layout.Store(&found.layout)
		findings, err = t.findNames(ctx, targets, findings)
	}
	if err != nil {
		findings = append(findings, t.findingOf(err))
		err = t.explained(err)
	}
	slices.SortStableFunc(findings, func(a, b store.Finding) int { return int(b.Severity) - int(a.Severity) })
	return findings, err
}

// findNames adds the targets that can't be served.
func (t *Table) findNames(ctx context.Context, targets []string, findings []store.Finding) ([]store.Finding, error) {
	unfit, err := t.judgeNames(ctx, targets)
	if err != nil {
		return findings, err
	}
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		findings = append(findings, store.Finding{
			Severity: store.Fault, Where: "target " + strconv.Quote(name), What: "it can't be served: " + unfit[name].why, Remedy: unfit[name].remedy,
		})
	}
	return findings, nil
}
