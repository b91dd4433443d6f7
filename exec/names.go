package exec

import (
	"context"
	"fmt"
	"time"
)

// Two names of targets may be one to the table's column, as its collation goes, and some names it can't hold at all. The
// table is asked at the start, when targets change, and after an outage. Nothing is claimed for a target whose name
// is unfit: its rows would go to another target, or its name fail the claims of all.

// How long a client that adds a target waits for the table's word on the name, and how long it takes until
// a question that failed is asked again.
const (
	nameTimeout = 2 * time.Second
	firstNames  = time.Second
	longNames   = 30 * time.Second
)

// checkNames asks the table whether it takes the names of the targets, where that may have changed.
func (w *Worker) checkNames(ctx context.Context) error {
	w.mu.Lock()
	wanted, names := w.namesDue && w.claims.names.due.IsZero(), w.names()
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
		w.claims.names.grow(firstNames, longNames)
		return nil
	}
	w.claims.names = backoff{}
	for _, name := range names {
		if t, served := w.targets[name]; served {
			w.noteFit(t, unfit[name])
		}
	}
	return nil
}

// noteFit notes whether the table takes a target's name. The lock is held.
func (w *Worker) noteFit(t *target, unfit string) {
	if unfit == t.unfit {
		return
	}
	t.unfit = unfit
	if unfit != "" {
		w.Logger.Error("nothing is claimed for a target: the table does not take its name", "target", t.name, "reason", unfit)
		return
	}
	w.poll([]*target{t})
}

// checkName asks whether the table takes a name beside those of the targets. Where it does not answer soon, that is
// found out later.
func (w *Worker) checkName(name string) error {
	w.mu.Lock()
	names := append(w.names(), name)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
	defer cancel()
	unfit, err := w.Table.Names(ctx, names)
	if why, is := unfit[name]; err == nil && is {
		return RefusedError(fmt.Sprintf("target '%s' can't be served: %s", name, why))
	}
	return nil
}
