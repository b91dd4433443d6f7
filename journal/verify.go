package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Verify reads the whole journal and checks sequence, hash chain, transitions, times, the
// head file, the mirror's position, and that the index agrees with the events. It gives
// the state after the last sound event; a *DamagedError says what is wrong with the next.
func (r *Reader) Verify(ctx context.Context) (*State, error) {
	state := &State{}
	if _, err := r.verify(ctx, state); err != nil {
		return state, r.failed("verify", err)
	}
	if err := r.checkIndex(ctx); err != nil {
		return state, r.failed("verify", err)
	}
	return state, nil
}

// verify checks everything that the worker relies on. It leaves the state after
// the last sound event, and gives the mirror's position.
func (r *Reader) verify(ctx context.Context, state *State) (uint64, error) {
	// Head and position go first: what a worker appends while we read must not look missing.
	head, err := readHead(r.dir)
	if err != nil {
		return 0, err
	}
	position, err := r.position(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.fold(ctx, state); err != nil {
		return 0, err
	}
	if position > state.Seq {
		return 0, &DamagedError{
			Seq: state.Seq + 1, Detail: fmt.Sprintf("the jobs table shows event %d, the journal ends at %d", position, state.Seq),
		}
	}
	return position, r.checkHead(ctx, head, state.Seq)
}

// fold verifies every event in the database and applies it to the state:
// sequence without a gap, hash chain, legal transitions, time that never runs
// backwards. A *DamagedError names the first event that is wrong; the state is then the one before it.
func (r *Reader) fold(ctx context.Context, state *State) error {
	for record, err := range r.records(ctx, query{}) {
		if err != nil {
			return wrong(state.Seq+1, err)
		}
		if err := check(record, state); err != nil {
			return err
		}
	}
	return nil
}

// check verifies one record and applies it.
func check(r record, state *State) error {
	switch {
	case r.seq != state.Seq+1:
		return &DamagedError{Seq: state.Seq + 1, Detail: fmt.Sprintf("it is missing; event %d follows", int64(r.seq))}
	case r.chain(state.Hash) != r.hash:
		return &DamagedError{Seq: r.seq, Detail: "its hash does not match its content and the event before it"}
	}
	e, err := r.decode()
	if err != nil {
		return err
	}
	if err := state.Apply(e); err != nil {
		return &DamagedError{Seq: r.seq, Err: err}
	}
	return nil
}

// wrong says at which event damage was met. Other errors (no access, no memory, a context's
// end) are not about the journal, and stay as they are.
func wrong(seq uint64, err error) error {
	var d *DamagedError
	if err = damaged(err); errors.As(err, &d) && d.Seq == 0 {
		return &DamagedError{Seq: seq, Err: d.Err, Detail: d.Detail}
	}
	return err
}

// checkHead compares the database, which ends at seq, with what was acknowledged.
func (r *Reader) checkHead(ctx context.Context, head acknowledgement, seq uint64) error {
	switch {
	case !head.found && seq > 0:
		return &DamagedError{Detail: "the head file is missing, so nobody can tell whether the newest events are"}
	case head.seq == 0:
		return nil
	case head.seq > seq:
		return &DamagedError{
			Seq: seq + 1, Detail: fmt.Sprintf("events up to %d were acknowledged, the journal ends at %d", head.seq, seq),
		}
	}
	var stored []byte
	err := r.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT hash FROM events WHERE seq = ?`, int64(head.seq)).Scan(&stored)
	})
	if err != nil {
		return wrong(head.seq, err)
	}
	if string(stored) != string(head.hash[:]) {
		return &DamagedError{Seq: head.seq, Detail: "it is not the event that was acknowledged under this number"}
	}
	return nil
}

// checkIndex lets SQLite compare the index with the table: events that the index does not
// know would be missing from a job's history. It is one statement, so a worker's
// write-ahead log grows while it runs.
func (r *Reader) checkIndex(ctx context.Context) error {
	var verdict string
	err := r.read(func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&verdict)
	})
	if err != nil {
		return damaged(err)
	}
	if verdict != "ok" {
		return &DamagedError{Detail: verdict}
	}
	return nil
}
