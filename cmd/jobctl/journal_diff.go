package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
)

// errNeedsTable says why a folder is not enough.
var errNeedsTable = errors.New("the table is reached through the worker: leave --journal away, and name the worker with --host and --port, or use --master")

// tableCommand makes a command that compares journals with the table, which only their workers reach.
func (p *program) tableCommand(name, help string, exec func(ctx context.Context, j *journals) error) *ffcli.Command {
	return p.journalCommand(name, "", help, func(ctx context.Context, j *journals, _ []string) error {
		if len(j.remotes) == 0 && len(j.sources) > 0 {
			return wrongUsage("journal %s: %w", name, errNeedsTable)
		}
		return exec(ctx, j)
	})
}

func (p *program) journalDiff() *ffcli.Command {
	return p.tableCommand("diff", "rows that do not say what the journal says: what is still owed, what somebody else changed", func(ctx context.Context, j *journals) error {
		list := p.newListing("WORKER", "JOB", "CAUSE", "JOURNAL", "TABLE", "REASON")
		changed := 0
		err := eachItem(ctx, j, "journal-diff", nil, func(s source, d history.Difference) error {
			if d.Cause == history.CauseChanged {
				changed++
			}
			if p.json() {
				return p.printJSON(struct {
					Worker string `json:"worker,omitempty"`
					history.Difference
				}{s.worker(), d})
			}
			t := odd
			if d.Cause == history.CauseChanged {
				t = bad
			}
			return list.add(t, s.worker(), d.Job, d.Cause, describeWanted(d.Want), describeFound(d.Found), d.Reason)
		})
		if err == nil && !p.json() {
			err = list.flush()
		}
		if err == nil && changed > 0 {
			err = fmt.Errorf("rows that somebody else changed: %d", changed)
		}
		return err
	})
}

func (p *program) journalReapply() *ffcli.Command {
	since := timeFlag{p: p}
	var dry bool
	c := p.tableCommand("reapply", "bring a table that was restored from a backup up to what the journals know, by guarded updates", func(ctx context.Context, j *journals) error {
		query := fieldsOf(history.ReapplyQuery{Since: since.at, DryRun: dry})
		list := p.newListing("WORKER", "JOB", "DID", "JOURNAL", "TABLE", "REASON")
		refused, err := p.reapply(ctx, j, query, list)
		if err == nil && !p.json() {
			err = list.flush()
		}
		if err == nil && refused > 0 {
			err = fmt.Errorf("rows that were refused, and left as found: %d", refused)
		}
		return err
	})
	c.FlagSet.Var(&since, "since", "only jobs to which something happened from this time on: the time of the backup")
	c.FlagSet.BoolVar(&dry, "dry-run", false, "only tell what would be done")
	return c
}

// reapply has all workers reapply their journals. Where one gave a row back that another was refused, since the row bore
// the first one's claim, all are asked again: what the other knows of the row applies now.
func (p *program) reapply(ctx context.Context, j *journals, query map[string]any, list *listing) (int, error) {
	type reapplied = from[history.Reapplied]
	for {
		var refused []reapplied
		gaveBack := false
		err := eachItem(ctx, j, "journal-reapply", query, func(s source, r history.Reapplied) error {
			if r.Did == history.DidRefuse {
				refused = append(refused, reapplied{s, r})
				return nil
			}
			gaveBack = gaveBack || r.Did == history.DidApply && r.Want == nil
			return p.printReapplied(list, s, r)
		})
		if err == nil && gaveBack && len(refused) > 0 {
			continue
		}
		for _, r := range refused {
			err = errors.Join(err, p.printReapplied(list, r.source, r.item))
		}
		return len(refused), err
	}
}

func (p *program) printReapplied(list *listing, s source, r history.Reapplied) error {
	if p.json() {
		return p.printJSON(struct {
			Worker string `json:"worker,omitempty"`
			history.Reapplied
		}{s.worker(), r})
	}
	t := good
	if r.Did == history.DidRefuse {
		t = bad
	}
	return list.add(t, s.worker(), r.Job, r.Did, describeWanted(r.Want), describeFound(r.Found), r.Reason)
}

// eachItem has the items of one stream of each worker visited, one worker after the other.
func eachItem[T any](ctx context.Context, j *journals, typ string, query map[string]any, visit func(source, T) error) error {
	for _, r := range j.remotes {
		for item, err := range stream[T](ctx, r, typ, query) {
			if err != nil {
				if err := j.fail(r, err); err != nil {
					return err
				}
				break
			}
			if err := visit(r, item); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeWanted(row *history.Row) string {
	if row == nil {
		return "not this worker's"
	}
	return describeRow(*row)
}

func describeFound(row *history.Row) string {
	if row == nil {
		return "no row"
	}
	return describeRow(*row)
}
