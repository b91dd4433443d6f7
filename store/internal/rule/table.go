package rule

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"jobd/store"
)

// What a store knows of its table: on which server claims may be made, what its errors mean, and what
// is wrong with it.

// Servers knows on which server claims may be made. Its methods are safe for concurrent use.
type Servers struct {
	OnServer  func() // is called when another server is reached; it must not block
	confirmed atomic.Pointer[string]
}

// Confirm lets claims be made on a server, and on no other.
func (s *Servers) Confirm(id string) { s.confirmed.Store(&id) }

// Reach tells the owner of OnServer where a new connection leads to another server than the
// confirmed one.
func (s *Servers) Reach(server string) {
	if s.unconfirmed(server) != nil {
		s.OnServer()
	}
}

// AllowClaim fails where claims are not to be made on a server. OnServer is called each time, so
// that a claim that comes again finds the server confirmed in the end.
func (s *Servers) AllowClaim(ctx context.Context, server string) error {
	err := s.unconfirmed(server)
	if err == nil || store.IsComparing(ctx) {
		return nil
	}
	s.OnServer()
	return err
}

// unconfirmed is the error for a server that is not the confirmed one.
func (s *Servers) unconfirmed(server string) error {
	confirmed := s.confirmed.Load()
	switch {
	case confirmed == nil:
		return &store.AnotherServer{Reached: server}
	case *confirmed != server:
		return &store.AnotherServer{Reached: server, Confirmed: *confirmed}
	}
	return nil
}

// Known is what the examination of a table has found; nil until then.
type Known[L any] struct {
	atomic.Pointer[L]
	// Examine examines the table and keeps what it found.
	Examine func(context.Context) error
}

// Get gives it; where it is not known, the table is examined.
func (k *Known[L]) Get(ctx context.Context) (*L, error) {
	for { // another server may have been reached meanwhile, whose table is examined then
		if known := k.Load(); known != nil {
			return known, nil
		}
		if err := k.Examine(ctx); err != nil {
			return nil, err
		}
	}
}

// Failures says what the errors of a table mean.
type Failures struct {
	Sort Sort
	// Check examines the table, without any row.
	Check func(ctx context.Context) error
	// Forget makes the table be examined anew.
	Forget func()
	// Explain adds to an error what it means, for people that can mend it.
	Explain func(error) error
}

// askTimeout is for asking the table itself whether it can be used.
const askTimeout = 15 * time.Second

// Fail is the error of a method. A lost link, and what was found when the table was examined, are
// known for certain. Where only an error's number says that the table is out of reach, the table is
// asked, without any row: the number may be a trigger's, and then it says nothing of the table.
// After a lost link the table is examined anew.
func (f Failures) Fail(op string, err error) error {
	var unreachable *store.Unreachable
	var unusable *store.Unusable
	if err == nil || errors.As(err, &unreachable) || errors.As(err, &unusable) {
		return err
	}
	if fault, certain := f.Sort(err); fault > Whole && !certain {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		if known := f.Check(ctx); store.IsAway(known) {
			return fmt.Errorf("%s: %w (first seen as: %w)", op, known, err)
		}
		return fmt.Errorf("%s: %w", op, err)
	}
	return f.Certain(op, err)
}

// Certain is the error of an examination of the table itself: what it says of the table is true.
func (f Failures) Certain(op string, err error) error {
	switch fault, _ := f.Sort(err); fault {
	case Unusable:
		f.Forget()
		return &store.Unusable{Op: op, Err: f.Explain(err)}
	case Unreachable:
		f.Forget()
		return &store.Unreachable{Op: op, Err: f.Explain(err)}
	}
	return fmt.Errorf("%s: %w", op, err)
}

// FailClaim is Fail for a claim. Errors that tell themselves what they are about say nothing of the
// whole table, whatever number is among their causes.
func (f Failures) FailClaim(op string, err error) error {
	switch err.(type) {
	case *store.RefusedRows, *store.Overtaken:
		return fmt.Errorf("%s: %w", op, err)
	}
	return f.Fail(op, err)
}

// Querier is what can be asked: a pool, a connection, a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each reads all rows of a query, which may be several statements.
func Each(ctx context.Context, db Querier, query string, args []any, row Row) error {
	results, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer results.Close()
	for {
		for results.Next() {
			if err := row(results.Scan); err != nil {
				return err
			}
		}
		if !results.NextResultSet() {
			return results.Err()
		}
	}
}

// Misfit is an error of the table itself, which somebody has to change.
type Misfit struct{ Text string }

// Error implements error.
func (m Misfit) Error() string { return m.Text }

// Findings is what is wrong with a table.
type Findings struct {
	Table string // what it is about, as in: table `site`.`jobs`
	List  []store.Finding
	Bare  []store.Finding // indexes without which nothing is claimed
}

// Fault notes what keeps the table from being used.
func (f *Findings) Fault(remedy, format string, args ...any) {
	f.note(store.Fault, f.Table, fmt.Sprintf(format, args...), remedy)
}

// Warn notes what somebody ought to know.
func (f *Findings) Warn(remedy, format string, args ...any) {
	f.note(store.Warning, f.Table, fmt.Sprintf(format, args...), remedy)
}

func (f *Findings) note(severity store.Severity, where, what, remedy string) {
	f.List = append(f.List, store.Finding{Severity: severity, Where: where, What: what, Remedy: remedy})
}

// Unserved notes targets that can't be served, by name: why, and behind a semicolon what mends it.
func (f *Findings) Unserved(unfit map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		why, remedy, _ := strings.Cut(unfit[name], "; ")
		f.note(store.Fault, "target "+strconv.Quote(name), "it can't be served: "+why, remedy)
	}
}

// IsFaulty tells whether a fault was found.
func (f *Findings) IsFaulty() bool {
	return slices.ContainsFunc(f.List, func(one store.Finding) bool { return one.Severity == store.Fault })
}

// Err is all faults as a Misfit; nil where there is none.
func (f *Findings) Err() error {
	var faults []string
	for _, one := range f.List {
		if one.Severity == store.Fault {
			faults = append(faults, one.Advice())
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return Misfit{strings.Join(faults, "; and ")}
}

// All are the findings, faults first.
func (f *Findings) All() []store.Finding {
	list := append(f.List, f.Bare...)
	slices.SortStableFunc(list, func(a, b store.Finding) int { return int(b.Severity) - int(a.Severity) })
	return list
}

// bare notes an index that claims need.
func (f *Findings) bare(what, remedy string) {
	f.Bare = append(f.Bare, store.Finding{Severity: store.Fault, Where: f.Table, What: what, Remedy: remedy})
}

// NotClaimed is why nothing can be claimed, though the table can be used otherwise; "": it can.
func (f *Findings) NotClaimed() string {
	words := make([]string, len(f.Bare))
	for i, one := range f.Bare {
		words[i] = one.Advice()
	}
	return strings.Join(words, "; and ")
}
