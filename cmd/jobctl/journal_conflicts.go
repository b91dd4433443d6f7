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
		found := p.report(j.named(), "no conflicts", "TIME", "SEQ", "JOB", "WANTED", "FOUND", "OWNER", "REASON").cutAt("WORKER|WANTED|FOUND|REASON")
		q := history.Query{Kinds: []journal.Kind{journal.KindConflict}, Since: span.since.at, Until: span.until.at}
		for e, err := range j.events(ctx, q) {
			if err == nil {
				err = found.addConflict(e)
			}
			if err != nil {
				return found.end(err)
			}
		}
		return found.end(nil)
	})
	span = p.windowFlags(c)
	return c
}

// rowNotTold stands for a row that exists, and of which the journal does not say more.
const rowNotTold = "not told"

func (r *report) addConflict(e from[journal.Event]) error {
	conflict, _ := e.item.Payload.(journal.Conflict)
	found, owner := "no row", ""
	switch {
	case conflict.Found != nil:
		found, owner = conflict.Found.Status, conflict.Found.Owner
	case conflict.Reason != "": // the row is there: it was its update that was refused
		found = rowNotTold
	}
	worker := e.source.worker()
	return r.add(worker, eventJSON(worker, e.item), plain,
		r.clock(e.item.Time), e.item.Seq, e.item.Job, conflict.Wanted, found, owner, conflict.Reason)
}
