package rule

import (
	"context"
	"math/rand/v2"
	"time"

	"jobd/store"
)

// Fault is what a failed transaction says of the changes in it.
type Fault int

// The faults.
const (
	Whole   Fault = iota // nothing at all: the table was not reached, or can't be used
	Values               // what one of the updates writes is refused, and stays so
	Rule                 // the application's rules refuse one of the updates, whatever it writes
	Moment               // one of the updates fails for now
	Dubious              // Whole or Moment: a trigger may have raised it, too
)

// Updater is one call of Apply as Divide sees it. Changes go by their index.
type Updater interface {
	// Try applies some changes in one transaction and notes what became of them. When it fails, it
	// may have been applied nevertheless: trying again does no harm.
	Try(ctx context.Context, some []int) error
	// Sort tells what an error of Try says.
	Sort(err error) Fault
	// Ask asks the table, without any row, whether it can be used.
	Ask(ctx context.Context) error
	// Reduce leaves out of a change what the error may be about; false: there is nothing left to
	// leave out.
	Reduce(index int, err error) bool
	// Note notes what became of a change.
	Note(index int, outcome store.Outcome)
}

// The bounds of dividing. Rows that are not tried within them are held: they are tried again later.
const (
	// hopelessAfter is how many updates fail one by one, while none at all succeeds, before the
	// others count as failing too.
	hopelessAfter = 8
	// patience is how long updates are tried and divided, once one has failed.
	patience = 3 * time.Second
)

// Divide applies changes. An error number says how to try again, never that all rows are at fault:
// where a transaction fails, its halves are tried, until the updates at fault stand alone. Those
// are reduced where their values are at fault, then refused or held. Only a fault of the whole
// table fails the call.
//
// What a rule refuses is never reduced: the rule may end between two tries, and the second would
// then be taken without what was left out of it for nothing.
//
// Halves are chosen by lot. So the rows that the bounds leave untried are other ones each time, and
// no row waits behind the same others for ever.
func Divide(ctx context.Context, u Updater, all []int) error {
	d := division{Updater: u, begun: time.Now()}
	return d.send(ctx, all)
}

// division is the state of one Divide.
type division struct {
	Updater
	begun     time.Time
	succeeded bool  // something was applied
	failed    int   // updates that failed by themselves
	last      error // the newest failure; nil: there was none
	proven    bool  // the table itself was asked since the first failure, and works
}

// send applies some changes, in as many transactions as that takes.
func (d *division) send(ctx context.Context, some []int) error {
	if len(some) == 0 {
		return nil
	}
	if d.hopeless() {
		d.hold(some)
		return nil
	}
	err := d.Try(ctx, some)
	if err == nil {
		d.succeeded = true
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	fault, err := d.sort(ctx, err)
	if fault == Whole {
		return err
	}
	d.last = err
	if len(some) == 1 {
		return d.single(ctx, some, fault)
	}
	rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	half := len(some) / 2
	if err := d.send(ctx, some[:half]); err != nil {
		return err
	}
	return d.send(ctx, some[half:])
}

// sort tells what an error says, and for Whole the error that Apply returns. What is dubious is the
// rows' where the table, asked without any row, works.
func (d *division) sort(ctx context.Context, err error) (Fault, error) {
	fault := d.Sort(err)
	if fault != Dubious {
		return fault, err
	}
	if !d.proven {
		if known := d.Ask(ctx); known != nil {
			return Whole, known
		}
		d.proven = true
	}
	return Moment, err
}

// single ends the division at one update that failed.
func (d *division) single(ctx context.Context, one []int, fault Fault) error {
	if fault == Values && d.Reduce(one[0], d.last) {
		return d.send(ctx, one)
	}
	d.failed++
	if fault == Moment {
		d.hold(one)
		return nil
	}
	d.Note(one[0], store.Outcome{Fate: store.Refused, Note: d.last.Error()})
	return nil
}

// hopeless tells that dividing on is not worth it now.
func (d *division) hopeless() bool {
	return d.last != nil && (!d.succeeded && d.failed >= hopelessAfter || time.Since(d.begun) > patience)
}

// hold leaves changes for later, with the newest failure as the reason.
func (d *division) hold(some []int) {
	for _, index := range some {
		d.Note(index, store.Outcome{Fate: store.Held, Note: d.last.Error()})
	}
}

// Fates of changes whose rows have still to be looked at.
const (
	missed store.Fate = -1 - iota // the update met no row
	hidden                        // the row is locked, or there is none
)

// Application is one call of Apply, as all tables have it.
type Application struct {
	Changes  []store.Change
	Outcomes []store.Outcome
	Reduced  []bool // the changes whose outputs the table took in no other form than a reduced one
}

// NewApplication begins a call of Apply.
func NewApplication(changes []store.Change) Application {
	return Application{changes, make([]store.Outcome, len(changes)), make([]bool, len(changes))}
}

// All are the indexes of all changes.
func (a *Application) All() []int {
	all := make([]int, len(a.Changes))
	for index := range all {
		all[index] = index
	}
	return all
}

// Reduce implements Updater.
func (a *Application) Reduce(index int, _ error) bool {
	again := a.Reduced[index]
	a.Reduced[index] = true
	return !again && a.Changes[index].Done != nil
}

// Note implements Updater.
func (a *Application) Note(index int, outcome store.Outcome) { a.Outcomes[index] = outcome }

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
// be read for now, why says so, as where somebody has locked the whole table since, and the mirror
// tries the changes again.
func (a *Application) Judge(
	uses store.Uses, find func(ids []int64) (found map[int64]*Found, why string, err error),
) error {
	var ids []int64
	for i, change := range a.Changes {
		if fate := a.Outcomes[i].Fate; fate == hidden || fate == missed || fate == store.Refused {
			ids = append(ids, change.Job)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, why, err := find(ids)
	if err != nil {
		return err
	}
	for i, change := range a.Changes {
		row := found[change.Job]
		switch outcome := &a.Outcomes[i]; {
		case why != "" && outcome.Fate < 0:
			*outcome = store.Outcome{Fate: store.Held, Note: why}
		case outcome.Fate == hidden && row != nil:
			*outcome = store.Outcome{Fate: store.Held, Note: "the row is locked by somebody else"}
		case outcome.Fate < 0:
			*outcome = Judge(change, row, uses)
		case outcome.Fate == store.Refused && row != nil:
			outcome.Found = &row.Row
		}
	}
	return nil
}
