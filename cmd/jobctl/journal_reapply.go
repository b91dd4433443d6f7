package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/net/api"
)

func (p *program) journalReapply() *ffcli.Command {
	since := timeFlag{p: p}
	var lost dirsFlag
	var dry, accept bool
	c := command("reapply", "journal reapply [--since TIME] [--journal DIR]", "bring a table that was restored from a backup up to what the journals know, by guarded updates", func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return wrongUsage("journal reapply: takes no arguments, got %q", args)
		}
		return p.read(ctx, nil, func(ctx context.Context, j *journals) error {
			run := reapply{
				program: p, journals: j, query: history.ReapplyQuery{Since: since.at, DryRun: dry, AcceptUnknown: true},
				progress: p.progress("rows reapplied"),
				done:     p.report(true, "no row differs", "JOB", "DID", "JOURNAL", "TABLE", "REASON").cutAt("WORKER|JOURNAL|TABLE|REASON"),
			}
			defer run.progress.end()
			return run.all(ctx, lost, accept)
		})
	})
	c.FlagSet.Var(&since, "since", "only jobs to which something happened from this time on: the time of the backup")
	c.FlagSet.Var(&lost, "journal", "the folder, on a worker's machine, with the journal of a worker that is gone; more than once for several")
	c.FlagSet.BoolVar(&dry, "dry-run", false, "only tell what would be done")
	c.FlagSet.BoolVar(&accept, "accept-unknown", false, "go on although rows wait of which no journal can tell whether they have run")
	return c
}

// reapply is one reapply by all workers.
type reapply struct {
	*program
	journals *journals
	query    history.ReapplyQuery
	done     *report
	progress *progress // counts the rows that differ
	refused  int
}

// all has the workers reapply their own journals, and then one of them each journal of a worker
// that is gone, unless there are rows that may have run before all that.
func (p *reapply) all(ctx context.Context, folders []string, accept bool) error {
	lost, err := p.findLost(ctx, folders)
	if err == nil {
		err = p.checkUnknown(ctx, lost, accept)
	}
	if err == nil {
		p.query.Retried, err = p.retried(ctx)
	}
	if err == nil {
		err = p.own(ctx)
	}
	for _, one := range lost {
		if err == nil {
			query := p.query
			query.Journal = one.folder
			err = p.stream(ctx, one.reader, query, func(r history.Reapplied) error { return p.printRow(one.reader, r) })
		}
	}
	if err = p.done.end(err); err == nil && p.refused > 0 {
		err = fmt.Errorf("rows that were refused, and left as found: %d", p.refused)
	}
	return err
}

// stream has a worker answer a query; a worker that fails is named, and the others go on.
func (p *reapply) stream(ctx context.Context, r *remote, query history.ReapplyQuery, use func(history.Reapplied) error) error {
	for item, err := range stream[history.Reapplied](ctx, r, api.JournalReapply, fieldsOf(query)) {
		if err != nil {
			return p.journals.fail(r, err)
		}
		if err := use(item); err != nil {
			return err
		}
	}
	return nil
}

// own has all workers reapply their journals. Where one gave a row back that another was refused,
// since the row bore the first one's claim, all are asked again: what the other knows of the row
// applies now.
func (p *reapply) own(ctx context.Context) error {
	type reapplied = from[history.Reapplied]
	for {
		var refused []reapplied
		gaveBack := false
		var err error
		for _, r := range p.journals.remotes {
			if err != nil {
				break
			}
			err = p.stream(ctx, r, p.query, func(item history.Reapplied) error {
				if item.Did == history.DidRefuse {
					refused = append(refused, reapplied{r, item})
					return nil
				}
				gaveBack = gaveBack || item.Did == history.DidApply && item.Want == nil
				return p.printRow(r, item)
			})
		}
		if err == nil && gaveBack && len(refused) > 0 {
			continue
		}
		for _, r := range refused {
			err = errors.Join(err, p.printRow(r.source, r.item))
		}
		return err
	}
}

// printRow prints what was done with a row.
func (p *reapply) printRow(s source, r history.Reapplied) error {
	if !p.terminal { // else the rows tell
		p.progress.at(p.done.count + 1)
	}
	worker, tone := s.worker(), good
	if r.Did == history.DidRefuse {
		p.refused++
		tone = bad
	}
	if r.Journal != "" {
		worker = r.Journal
	}
	form := struct {
		Worker string `json:"worker,omitempty"`
		history.Reapplied
	}{worker, r}
	return p.done.add(worker, form, tone, r.Job, r.Did, describeWanted(r.Want), describeFound(r.Found), r.Reason)
}

// lostJournal is the journal of a worker that is gone, and the worker that reads it.
type lostJournal struct {
	folder string
	reader *remote
}

// findLost finds for each folder a worker that can read it.
func (p *reapply) findLost(ctx context.Context, folders []string) (lost []lostJournal, err error) {
	for _, dir := range folders {
		folder, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		var errs []error
		for _, r := range p.journals.remotes {
			_, err := p.unknown(ctx, r, history.ReapplyQuery{Journal: folder, Among: []int64{0}})
			if err == nil {
				lost = append(lost, lostJournal{folder, r})
				errs = nil
				break
			}
			errs = append(errs, named(r, err))
		}
		if err := errors.Join(errs...); err != nil {
			return nil, fmt.Errorf("--journal %s: a worker must be able to read it: copy it to the machine of one: %w", dir, err)
		}
	}
	return lost, nil
}
