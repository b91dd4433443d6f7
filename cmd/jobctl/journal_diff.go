package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/net/api"
)

// errNeedsTable says why a folder is not enough.
var errNeedsTable = errors.New("the table is reached through the worker: leave --journal away, and name the worker with --host and --port, or use --master")

// tableCommand makes a command that compares journals with the table, which only their workers
// reach.
func (p *program) tableCommand(name, help string, exec func(ctx context.Context, j *journals) error) *ffcli.Command {
	return p.journalCommand(name, "", help, func(ctx context.Context, j *journals, _ []string) error {
		if len(j.remotes) == 0 && len(j.sources) > 0 {
			return wrongUsage("journal %s: %w", name, errNeedsTable)
		}
		return exec(ctx, j)
	})
}

func (p *program) journalDiff() *ffcli.Command {
	var q history.DiffQuery
	c := p.tableCommand("diff", "rows that do not say what the journal says: what is still owed, what somebody else changed", func(ctx context.Context, j *journals) error {
		found := p.report(true, "no row differs", "JOB", "CAUSE", "JOURNAL", "TABLE", "REASON").cutAt("WORKER|JOURNAL|TABLE|REASON")
		changed := 0
		err := eachItem(ctx, j, api.JournalDiff, fieldsOf(q), func(s source, d history.Difference) error {
			if !q.Selects(d) {
				return nil // an older worker tells of all
			}
			tone := odd
			if d.Cause == history.CauseChanged {
				changed++
				tone = bad
			}
			form := struct {
				Worker string `json:"worker,omitempty"`
				history.Difference
			}{s.worker(), d}
			return found.add(s.worker(), form, tone, d.Job, d.Cause, describeWanted(d.Want), describeFound(d.Found), d.Reason)
		})
		if err = found.end(err); err == nil && changed > 0 {
			err = fmt.Errorf("rows that somebody else changed: %d", changed)
		}
		return err
	})
	c.FlagSet.BoolVar(&q.IgnoreDeleted, "ignore-deleted", false, "rows that are gone are no difference where their jobs have ended: for a table that is pruned")
	return c
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
