package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// fold verifies every event in the database and applies it to the state:
// sequence without a gap, hash chain, legal transitions, time that never runs
// backwards. A *DamagedError names the first event that is wrong; the state is then the one before it.
func fold(ctx context.Context, db *sql.DB, state *State) error {
	for r, err := range scanRecords(ctx, db, query{}) {
		if err != nil {
			return wrong(state.Seq+1, err)
		}
		if err := check(r, state); err != nil {
			return err
		}
	}
	return nil
}

// check verifies one record and applies it.
func check(r record, state *State) error {
	switch {
	case r.seq != state.Seq+1:
		return &DamagedError{Seq: state.Seq + 1, Detail: fmt.Sprintf("it is missing; event %d follows", r.seq)}
	case r.chain(state.Hash) != r.hash:
		return &DamagedError{Seq: r.seq, Detail: "its hash does not match its content and the event before it"}
	}
	e, err := r.decode()
	if err == nil {
		err = state.Apply(e)
	}
	return wrong(r.seq, err)
}

// wrong says at which event an error was met.
func wrong(seq uint64, err error) error {
	var d *DamagedError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.As(err, &d) && d.Seq > 0:
		return err
	case errors.As(err, &d):
		return &DamagedError{Seq: seq, Err: d.Err, Detail: d.Detail}
	}
	return &DamagedError{Seq: seq, Err: err}
}

// checkHead compares the database, which ends at seq, with what was acknowledged.
func checkHead(ctx context.Context, db *sql.DB, seq, acknowledged uint64, hash Hash) error {
	if acknowledged == 0 {
		return nil
	}
	if acknowledged > seq {
		return &DamagedError{
			Seq:    seq + 1,
			Detail: fmt.Sprintf("events up to %d were acknowledged, the journal ends at %d", acknowledged, seq),
		}
	}
	var stored []byte
	err := db.QueryRowContext(ctx, `SELECT hash FROM events WHERE seq = ?`, int64(acknowledged)).Scan(&stored)
	if err != nil {
		return wrong(acknowledged, damaged(err))
	}
	if string(stored) != string(hash[:]) {
		return &DamagedError{Seq: acknowledged, Detail: "it is not the event that was acknowledged under this number"}
	}
	return nil
}
