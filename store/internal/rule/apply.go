package rule

import (
	"context"
	"math/rand/v2"
	"time"

	"jobd/journal"
	"jobd/store"
)

// How changes are applied: a batch that fails is divided, and a row that an update did not meet is
// judged.

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

// Judge tells what became of a change whose update matched no row; found is
// nil where there is none of that id.
//
// A release only wants the row not to be ours. An update that matched no row shows
// that: the claim never committed, or a former try did it. So it counts as applied.
//
// A running that finds its row done with the same start was applied, and what came after
// it too: a mirror that was cut off goes over its last steps again.
//
// A row that should be ignored and is, was ignored by a former try, or by somebody else to the same end.
//
// A row that the update should have met was changed back in between, or a trigger skips its
// updates: it is tried again.
//
// A row that was created after the claim is another job, which got an old id again from a server
// that had lost rows. However much it looks like the end of this one, nothing of this one is in it.
//
// Where rows may come back, a row that is ours still, but has another schedule, is for the mirror to
// plan anew; and workers share a row over time: one with a newer end, that is not ours, has had this
// end before.
func Judge(change store.Change, found *store.Seen, uses store.Uses) store.Outcome {
	if change.GivesBack() {
		return store.Outcome{Fate: store.Applied}
	}
	if found == nil {
		return store.Outcome{Fate: store.Lost}
	}
	if guarded(change, found) {
		if isEdited(change, found, uses) {
			return store.Outcome{Fate: store.Edited, Found: &found.Row}
		}
		return store.Outcome{Fate: store.Held, Note: "the update met no row, though the row is as the worker left it"}
	}
	later := newer(change, found)
	if !later && change.Status == journal.RowIgnored {
		if found.Status == journal.RowIgnored {
			return store.Outcome{Fate: store.Applied}
		}
		return store.Outcome{Fate: store.Lost, Found: &found.Row}
	}
	hasEnded := found.Status == journal.RowDone || uses.Delays() && found.Status == journal.RowDelayed
	if !later && hasEnded && sameRun(change, found) {
		return store.Outcome{Fate: store.Applied}
	}
	if !later && change.EndsRun() && found.Status != journal.RowDone && found.Finished != 0 && found.Finished == store.Seconds(change.Finish) {
		return store.Outcome{Fate: store.Applied} // and set back, or claimed again, since: its time stays until the next end
	}
	if !later && uses.Delays() && found.Owner != change.Token && change.EndsRun() && found.Finished > store.Seconds(change.Finish) {
		return store.Outcome{Fate: store.Applied}
	}
	return store.Outcome{Fate: store.Lost, Found: &found.Row, Newer: later}
}

// isEdited tells whether a row that is ours has another schedule than its end was planned from.
func isEdited(change store.Change, found *store.Seen, uses store.Uses) bool {
	if !isGuarded(change, uses) || found.Plan == nil {
		return false
	}
	return found.Plan.Schedule != change.Plan.Schedule || uses.Has(store.ColumnTimeZone) && found.Plan.Zone != change.Plan.Zone
}

// isGuarded tells whether a change is applied only to a row with the schedule of its claim.
func isGuarded(change store.Change, uses store.Uses) bool {
	return change.EndsRun() && change.Plan != nil && uses.Has(store.ColumnSchedule)
}

// Unedited is the further condition, with its arguments, that a row has the schedule still from
// which the end of its run was planned; "" where the change needs none.
func Unedited(change store.Change, uses store.Uses) (condition string, args []any) {
	if !isGuarded(change, uses) {
		return "", nil
	}
	condition, args = same(store.ColumnSchedule, change.Plan.Schedule)
	if uses.Has(store.ColumnTimeZone) {
		zone, more := same(store.ColumnTimeZone, change.Plan.Zone)
		condition, args = condition+zone, append(args, more...)
	}
	return condition, args
}

// same is the condition that a column says what a claim read in it; NULL is "".
func same(column, text string) (condition string, args []any) {
	return " AND COALESCE(CAST(" + column + " AS CHAR), '') = ?", []any{text}
}

// guarded tells whether a row is one that the change's update meets.
func guarded(change store.Change, found *store.Seen) bool {
	return change.Token != "" && found.Owner == change.Token && (found.Status == journal.RowAccepted || found.Status == journal.RowRunning)
}

// newer tells that a row is a later job than the one that the change is about.
func newer(change store.Change, found *store.Seen) bool {
	return !change.Accepted.IsZero() && found.Created > store.Seconds(change.Accepted)
}

// sameRun tells whether a done row is the end of the very run that the change is about.
func sameRun(change store.Change, found *store.Seen) bool {
	if change.Status == journal.RowRunning {
		return found.Started == store.Seconds(change.Start)
	}
	return found.Finished == store.Seconds(change.Finish) && found.Result == change.Done.Result
}
