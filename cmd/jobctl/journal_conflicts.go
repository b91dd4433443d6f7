package main

import (
	"context"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

func (p *program) journalConflicts() *ffcli.Command {
	var span *window
	c := p.journalCommand("conflicts", "", "rows that somebody else changed or deleted while they were the worker's", func(ctx context.Context, j *journals, _ []string) error {
		head := []string{"TIME", "SEQ", "JOB", "WANTED", "FOUND", "OWNER", "REASON"}
		if j.named() {
			head = append([]string{"WORKER"}, head...)
		}
		list := p.newListing(head...)
		q := history.Query{Kinds: []journal.Kind{journal.KindConflict}, Since: span.since.at, Until: span.until.at}
		for e, err := range j.events(ctx, q) {
			if err != nil {
				return err
			}
			if err := p.addConflict(list, e); err != nil {
				return err
			}
		}
		if p.json() {
			return nil
		}
		return list.flush()
	})
	span = p.windowFlags(c.FlagSet)
	return c
}

// rowNotTold stands for a row that exists, and of which the journal does not say more.
const rowNotTold = "not told"

func (p *program) addConflict(list *listing, e from[journal.Event]) error {
	if p.json() {
		return p.printJSON(eventJSON(e.source.worker(), e.item))
	}
	conflict, _ := e.item.Payload.(journal.Conflict)
	found, owner := "no row", ""
	switch {
	case conflict.Found != nil:
		found, owner = conflict.Found.Status, conflict.Found.Owner
	case conflict.Reason != "": // the row is there: it was its update that was refused
		found = rowNotTold
	}
	row := []any{p.stamp(e.item.Time), e.item.Seq, e.item.Job, conflict.Wanted, found, owner, conflict.Reason}
	if e.source.worker() != "" {
		row = append([]any{e.source.worker()}, row...)
	}
	return list.add(plain, row...)
}
