package rule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"jobd/store"
)

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
