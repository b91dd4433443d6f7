package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"jobd/cmd/internal/history"
	"jobd/net/api"
)

// unknownPage is how many rows are asked about in one go.
const unknownPage = 10_000

// errUnknown says how to go on.
var errUnknown = errors.New("nothing was changed: nobody can tell whether some rows that wait have run, and they would be run (again); " +
	"give the journals of lost workers with --journal DIR, or go on with --accept-unknown")

// checkUnknown lists the rows that wait and that no journal knows: they may have run, and would run
// again. reapply leaves them as they are, and goes on only if the operator accepts that.
func (p *reapply) checkUnknown(ctx context.Context, lost []lostJournal, accept bool) error {
	suspects := make(map[int64]bool)
	var notes []string
	for _, r := range p.journals.remotes {
		told, err := p.unknown(ctx, r, history.ReapplyQuery{Since: p.query.Since})
		if err != nil {
			return p.journals.fail(r, err)
		}
		for _, id := range told.Rows {
			suspects[id] = true
		}
		if len(told.Rows) > 0 {
			notes = append(notes, p.describeBeginning(told))
		}
	}
	for _, r := range p.journals.remotes {
		if err := p.narrow(ctx, r, "", suspects); err != nil {
			return err
		}
	}
	for _, one := range lost {
		if err := p.narrow(ctx, one.reader, one.folder, suspects); err != nil {
			return err
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(suspects))
	fmt.Fprintf(p.err, "jobctl: %d rows wait that may have run, and that no journal knows: %s\n", len(ids), someIDs(ids[:min(len(ids), unknownPage)], max(len(ids)-unknownPage, 0)))
	for _, note := range notes {
		fmt.Fprintf(p.err, "jobctl: %s\n", note)
	}
	if !accept && !p.query.DryRun {
		return errUnknown
	}
	return nil
}

// describeBeginning says when a worker's history begins, and why not earlier.
func (p *reapply) describeBeginning(told history.Unknown) string {
	why := "it holds nothing from before, as that of a new worker, or of one that lost its journal"
	if told.Removed {
		why = "retention has removed what was before"
	}
	return fmt.Sprintf("%d rows that wait were created before the history of %s begins, %s: %s", len(told.Rows), clean(told.Name), p.clock(told.Begins), why)
}

// narrow drops the rows that a journal knows.
func (p *reapply) narrow(ctx context.Context, r *remote, folder string, suspects map[int64]bool) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(suspects)), unknownPage) {
		told, err := p.unknown(ctx, r, history.ReapplyQuery{Journal: folder, Among: ids})
		if err != nil {
			return p.journals.fail(r, err)
		}
		for _, id := range ids {
			if _, is := slices.BinarySearch(told.Rows, id); !is {
				delete(suspects, id)
			}
		}
	}
	return nil
}

// unknown asks a worker which rows one journal does not know.
func (p *reapply) unknown(ctx context.Context, r *remote, query history.ReapplyQuery) (told history.Unknown, err error) {
	query.Unknown = true
	var rows []int64
	for item, err := range stream[history.Unknown](ctx, r, api.JournalReapply, fieldsOf(query)) {
		if err != nil {
			return told, err
		}
		told, rows = item, append(rows, item.Rows...)
	}
	told.Rows = rows
	return told, nil
}
