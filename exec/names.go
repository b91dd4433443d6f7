package exec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
)

// Two names of targets may be one to the table's column, as its collation goes, and some names it
// can't hold at all. The table is asked at the start, when targets change, and after an outage.
// Nothing is claimed for a target whose name is unfit: its rows would go to another target, or its
// name fail the claims of all.

// How long a client that adds a target waits for the table's word on the name, and how long it
// takes until a question that failed is asked again.
const (
	nameTimeout = 2 * time.Second
	firstNames  = time.Second
	longNames   = 30 * time.Second
)

// checkNames asks the table whether it takes the names of the targets, where that may have changed.
func (w *Worker) checkNames(ctx context.Context) error {
	w.mu.Lock()
	wanted, names := w.namesDue && w.claims.names.Due.IsZero(), w.board.Names()
	if wanted {
		w.namesDue = false
	}
	w.mu.Unlock()
	if !wanted {
		return nil
	}
	unfit, err := w.Table.Names(ctx, names)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.namesDue = true
		if concernsAll(ctx, err) {
			return err
		}
		w.claims.names.Grow(time.Now(), firstNames, longNames)
		return nil
	}
	w.claims.names = board.Backoff{}
	for _, name := range names {
		if t, served := w.targets[name]; served {
			w.noteFit(t, unfit[name])
		}
	}
	return nil
}

// noteFit notes whether the table takes a target's name. Callers must hold w.mu.
func (w *Worker) noteFit(t *target, unfit string) {
	if unfit == t.unfit {
		return
	}
	t.unfit = unfit
	if unfit != "" {
		w.Logger.Error("nothing is claimed for a target: the table does not take its name", "target", t.Name(), "reason", unfit)
		return
	}
	w.poll([]*target{t})
}

// checkName asks whether the table takes a name beside those of the targets. Where it does not
// answer soon, that is found out later.
func (w *Worker) checkName(name string) error {
	w.mu.Lock()
	names := append(w.board.Names(), name)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
	defer cancel()
	unfit, err := w.Table.Names(ctx, names)
	if why, is := unfit[name]; err == nil && is {
		return RefusedError(fmt.Sprintf("target '%s' can't be served: %s", name, why))
	}
	return nil
}

// CheckTargets tells which of these targets, each new to the worker, the table would not take when
// SetTargets is given them all: it asks, and changes nothing. Where the table does not answer soon,
// that is found out later. A target that is served already stays, whatever the table says of it.
func (w *Worker) CheckTargets(wanted map[string]int) error {
	var names, added []string
	w.mu.Lock()
	for _, name := range w.board.Names() { // those that stay, and those that stay until their jobs have run
		if _, stays := wanted[name]; stays || w.targets[name].Length() > 0 {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if _, served := w.targets[name]; !served {
			added = append(added, name)
		}
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
	defer cancel()
	unfit, err := w.Table.Names(ctx, append(names, added...))
	if err != nil {
		return nil
	}
	var errs []error
	for _, name := range added {
		if why, is := unfit[name]; is {
			errs = append(errs, RefusedError(fmt.Sprintf("target '%s' can't be served: %s", name, why)))
		}
	}
	return errors.Join(errs...)
}
