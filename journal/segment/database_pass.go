package segment

import (
	"context"
	"database/sql"
	"errors"

	"jobd/journal"
)

// maxPasses bounds how often one scan passes over damage; what is behind that counts as damaged
// too.
const maxPasses = 1000

// pass finds where records can be read again behind a damaged one, the next after a number: by
// looking further and further behind it, and then between. Last is 0 where nothing can be read any
// more.
func (d *Database) pass(ctx context.Context, sel Selection, after int64) *journal.DamagedError {
	damage := &journal.DamagedError{}
	after = max(after, 0)
	damage.Seq = uint64(after) + 1
	if d.passes++; d.passes > maxPasses {
		return damage
	}
	var cause *journal.DamagedError
	if errors.As(d.probe(ctx, sel, after), &cause) {
		damage.Detail, damage.Err = cause.Detail, cause.Err
	}
	low, high := after, after // from low on it can't be read, from high on it can
	for step := int64(1); ; step *= 2 {
		if high = after + step; step <= 0 || high < 0 {
			return damage
		}
		if err := d.probe(ctx, sel, high); err == nil {
			break
		} else if !IsDamage(err) {
			return damage
		}
		low = high
	}
	for low+1 < high {
		if middle := low + (high-low)/2; d.probe(ctx, sel, middle) == nil {
			high = middle
		} else {
			low = middle
		}
	}
	damage.Last = uint64(high)
	return damage
}

// probe tries to read the record behind a number.
func (d *Database) probe(ctx context.Context, sel Selection, after int64) error {
	return Damaged(d.read(func(db *sql.DB) error {
		_, _, err := d.page(ctx, db, sel, after, 1)
		return err
	}))
}
