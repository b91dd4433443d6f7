package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/journal/replay"

	jobexec "jobd/exec"
	"jobd/store/reconcile"
)

// nameRetry is how long a start waits between two looks at a name that another worker has: it may be one that was just
// killed, whose connection the server closes in a moment.
const nameRetry = 200 * time.Millisecond

// checkTargets refuses targets whose names the table can't tell apart or can't hold. Where the table does not answer the
// worker finds out later, and claims nothing for them.
func (d *daemon) checkTargets(c config) error {
	if !d.reached {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	unfit, err := d.table.Names(ctx, slices.Sorted(maps.Keys(c.targets)))
	if err != nil {
		d.log.Warn("the table could not be asked about the targets' names; the worker asks again", "error", err)
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		errs = append(errs, fmt.Errorf("%s: %q can't be served: %s", c.targetPlaces[name], name, unfit[name]))
	}
	d.learnFolds(ctx, slices.Sorted(maps.Keys(c.targets)))
	return exit.With(exit.Usage, errors.Join(errs...))
}

// learnFolds finds out whether the table takes names for one that differ in case only: masters then send jobs here whose
// target is written otherwise.
func (d *daemon) learnFolds(ctx context.Context, names []string) {
	for _, name := range names {
		other := strings.ToUpper(name)
		if other == name {
			other = strings.ToLower(name)
		}
		if other == name {
			continue // no letters
		}
		alone, err := d.table.Names(ctx, []string{other})
		if err != nil || len(alone) > 0 {
			continue
		}
		if both, err := d.table.Names(ctx, []string{name, other}); err == nil {
			d.folds.Store(len(both) > 0)
			return
		}
	}
}

// learnFoldsAgain does it for a table that was opened again: it may not have answered at the start, or be another one now.
// Masters are told where that is news.
func (d *daemon) learnFoldsAgain() {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	before := d.folds.Load()
	d.learnFolds(ctx, d.worker.TargetNames())
	if d.folds.Load() != before {
		d.onTargets()
	}
}

// knows tells whether the journal has a claim of a job, by its token.
func (d *daemon) knows(ctx context.Context, job int64, token string) bool {
	r, err := replay.Open(d.journalDir)
	if err != nil {
		d.log.Warn("the journal's history can't be read", "error", err)
		return false
	}
	defer r.Close()
	known, err := reconcile.Claimed(ctx, r, job, token)
	if err != nil {
		d.log.Warn("the journal's history can't be read", "job", job, "error", err)
	}
	return known
}

// identify takes the worker's name on its table. A name that another worker has ends the start. Where the table does not
// answer, or a former connection of this worker has the name still, the worker waits for it before it claims.
func (d *daemon) identify(config) error {
	if !d.reached {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	taken, err := takeName(ctx, d.worker.Identify)
	if taken != nil {
		return taken
	}
	if err != nil {
		d.log.Warn("nothing is claimed before this worker has its name", "error", err)
	}
	return nil
}

// takeName tries to take the name for as long as another worker has it, until ctx ends. The last try may be cut short by
// that: then what the table has said before counts.
func takeName(ctx context.Context, identify func(context.Context) error) (taken *jobexec.NameTakenError, _ error) {
	for {
		err := identify(ctx)
		if err != nil && ctx.Err() != nil && taken != nil {
			return taken, nil
		}
		if !errors.As(err, &taken) {
			return nil, err
		}
		select {
		case <-time.After(nameRetry):
		case <-ctx.Done():
			return taken, nil
		}
	}
}

// noteTaken ends the run of a worker that finds out only now that its name is another one's: the table did not say so in time.
func (d *daemon) noteTaken(taken *jobexec.NameTakenError) {
	select {
	case d.nameless <- taken:
	default:
	}
}
