package rule

import (
	"context"
	"math/rand/v2"
	"time"

	"jobd/store"
)

// Fault is what an error says of the changes of a failed transaction, or of the table.
type Fault int

// The faults.
const (
	Moment      Fault = iota // one of the updates fails for now
	Values                   // what one of the updates writes is refused, and stays so
	Rule                     // the application's rules refuse one of the updates, whatever it writes
	Whole                    // nothing of the changes: something failed beside them
	Unusable                 // the table can't be used before somebody changes something
	Unreachable              // there is no connection to a server that takes writes
)

// Sort tells what an error says. What says no more than that of the whole table by its number is not
// certain: a trigger may have raised it, too.
type Sort = func(err error) (fault Fault, certain bool)

// The bounds of dividing. Rows that are not tried within them are held: they are tried again later.
const (
	// hopelessAfter is how many updates fail one by one, while none at all succeeds, before the
	// others count as failing too.
	hopelessAfter = 8
	// patience is how long updates are tried and divided, once one has failed.
	patience = 3 * time.Second
)

// Fates of changes whose rows have still to be looked at.
const (
	missed store.Fate = -1 - iota // the update met no row
	hidden                        // the row is locked, or there is none
)

// Application is one call of Apply, as all tables have it. Changes go by their index.
type Application struct {
	Changes  []store.Change
	Outcomes []store.Outcome
	Reduced  []bool // the changes whose outputs the table took in no other form than a reduced one

	// Try applies some changes in one transaction and notes what became of them. When it fails, it
	// may have been applied nevertheless: trying again does no harm.
	Try  func(ctx context.Context, some []int) error
	Sort Sort
	// Check asks the table, without any row, whether it can be used.
	Check func(ctx context.Context) error

	begun     time.Time // when the first update failed
	succeeded bool      // something was applied
	failed    int       // updates that failed by themselves
	last      error     // the newest failure; nil: there was none
	proven    bool      // the table itself was asked since the first failure, and works
}

// NewApplication begins a call of Apply.
func NewApplication(changes []store.Change) Application {
	return Application{Changes: changes, Outcomes: make([]store.Outcome, len(changes)), Reduced: make([]bool, len(changes))}
}

// All are the indexes of all changes.
func (a *Application) All() []int {
	all := make([]int, len(a.Changes))
	for index := range all {
		all[index] = index
	}
	return all
}

// Divide applies some changes. An error number says how to try again, never that all rows are at
// fault: where a transaction fails, its halves are tried, until the updates at fault stand alone.
// Those are reduced where their values are at fault, then refused or held. Only a fault of the whole
// table fails the call.
//
// What a rule refuses is never reduced: the rule may end between two tries, and the second would
// then be taken without what was left out of it for nothing.
//
// Halves are chosen by lot. So the rows that the bounds leave untried are other ones each time, and
// no row waits behind the same others for ever.
//
// The bounds hold for these changes alone: what failed of others before keeps none of them from a try.
func (a *Application) Divide(ctx context.Context, some []int) error {
	a.begun, a.succeeded, a.failed, a.last = time.Time{}, false, 0, nil
	return a.divide(ctx, some)
}

// divide is Divide, for a part of the changes.
func (a *Application) divide(ctx context.Context, some []int) error {
	if len(some) == 0 {
		return nil
	}
	if a.last != nil && (!a.succeeded && a.failed >= hopelessAfter || time.Since(a.begun) > patience) {
		a.hold(some)
		return nil
	}
	err := a.Try(ctx, some)
	if err == nil {
		a.succeeded = true
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	fault, err := a.sort(ctx, err)
	if fault >= Whole {
		return err
	}
	if a.last == nil {
		a.begun = time.Now()
	}
	a.last = err
	if len(some) == 1 {
		return a.single(ctx, some, fault)
	}
	rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	half := len(some) / 2
	if err := a.divide(ctx, some[:half]); err != nil {
		return err
	}
	return a.divide(ctx, some[half:])
}

// sort tells what an error says, and of the whole table the error that Apply returns. What is not
// certain is the rows' where the table, asked without any row, works.
func (a *Application) sort(ctx context.Context, err error) (Fault, error) {
	fault, certain := a.Sort(err)
	if fault <= Whole || certain {
		return fault, err
	}
	if !a.proven {
		if known := a.Check(ctx); known != nil {
			return fault, known
		}
		a.proven = true
	}
	return Moment, err
}

// single ends the division at one update that failed.
func (a *Application) single(ctx context.Context, one []int, fault Fault) error {
	index := one[0]
	if fault == Values && !a.Reduced[index] && a.Changes[index].Done != nil {
		a.Reduced[index] = true
		return a.divide(ctx, one)
	}
	a.failed++
	if fault == Moment {
		a.hold(one)
	} else {
		a.Outcomes[index] = store.Outcome{Fate: store.Refused, Note: a.last.Error()}
	}
	return nil
}

// hold leaves changes for later, with the newest failure as the reason.
func (a *Application) hold(some []int) {
	for _, index := range some {
		a.Outcomes[index] = store.Outcome{Fate: store.Held, Note: a.last.Error()}
	}
}

// Met notes whether the update of a change met its row.
func (a *Application) Met(index int, met bool) {
	switch {
	case !met:
		a.Outcomes[index] = store.Outcome{Fate: missed}
	case a.Reduced[index]:
		a.Outcomes[index] = store.Outcome{Note: "output reduced to ASCII and cut, or left out"}
	default:
		a.Outcomes[index] = store.Outcome{}
	}
}

// Hide notes that a row is locked, or not there.
func (a *Application) Hide(index int) { a.Outcomes[index] = store.Outcome{Fate: hidden} }

// Judge looks at the rows that no update met, and tells what the refused ones hold. Where they can't
// be read for now, as where somebody has locked the whole table since, the mirror tries the changes
// again.
func (a *Application) Judge(ctx context.Context, r *Reader) error {
	var ids []int64
	for i, change := range a.Changes {
		if fate := a.Outcomes[i].Fate; fate == hidden || fate == missed || fate == store.Refused {
			ids = append(ids, change.Job)
		}
	}
	found, err := r.look(ctx, r.Ask, ids)
	if err != nil && (store.IsAway(err) || ctx.Err() != nil) {
		return err
	}
	for i, change := range a.Changes {
		row := found[change.Job]
		switch outcome := &a.Outcomes[i]; {
		case err != nil && outcome.Fate < 0:
			*outcome = store.Outcome{Fate: store.Held, Note: err.Error()}
		case outcome.Fate == hidden && row != nil:
			*outcome = store.Outcome{Fate: store.Held, Note: "the row is locked by somebody else"}
		case outcome.Fate < 0:
			*outcome = Judge(change, row, r.Uses)
		case outcome.Fate == store.Refused && row != nil:
			outcome.Found = &row.Row
		}
	}
	return nil
}
