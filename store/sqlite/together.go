package sqlite

import (
	"context"
	"database/sql"
	"runtime"
	"slices"
	"sync"
)

// Transactions that are wanted at the same time are one, with one fsync: what was submitted, what the mirror applies, a
// claim. As in the journal's group commit nobody waits for a goroutine of its own: the first who wants something leads,
// and does it for all who came meanwhile.

// part is what somebody wants done in a transaction.
type part struct {
	ctx    context.Context
	work   func(ctx context.Context, tx *sql.Tx) (commit bool, err error)
	claims bool      // what it decides is journalled, and can't be done again: it is the last part of its transaction
	turn   chan bool // receives true when it leads, false when err is set
	err    error
}

// together are the parts that wait for a transaction.
type together struct {
	mu      sync.Mutex
	waiting []*part
	leading bool
}

// mostParts is how many parts a transaction has, about: who came first does not wait for ever more.
const mostParts = 16

// do waits until a part is done, and leads where it is its turn.
func (t *Table) do(p *part) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	p.turn = make(chan bool, 2)
	t.queue.add(p)
	leads := false
	select {
	case leads = <-p.turn:
	case <-p.ctx.Done():
		if t.queue.remove(p) {
			return p.ctx.Err()
		}
		leads = <-p.turn
	}
	if leads {
		t.lead()
		<-p.turn
	}
	return p.err
}

func (q *together) add(p *part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, p)
	if !q.leading {
		q.leading = true
		p.turn <- true
	}
}

// remove takes out a part that waits and does not lead.
func (q *together) remove(p *part) (waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.waiting, p)
	if at < 0 || len(p.turn) > 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, at, at+1)
	return true
}

// take takes out the parts that wait, but for claims behind the first one.
func (q *together) take(claim **part) (some []*part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(p *part) bool {
		switch {
		case !p.claims:
			some = append(some, p)
		case *claim == nil:
			*claim = p
		}
		return !p.claims || *claim == p
	})
	return some
}

// handOn lets the next one lead.
func (q *together) handOn() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.leading = len(q.waiting) > 0; q.leading {
		q.waiting[0].turn <- true
	}
}

// lead makes one transaction of what waits, the caller's own part among it. Where a part fails, nothing of the others
// is done: each is tried by itself then.
func (t *Table) lead() {
	var claim *part
	group := t.queue.take(&claim)
	failed, err := t.attempt(func(tx *sql.Tx) (commit bool, failed *part, err error) {
		for done := 0; done < len(group); {
			if failed, err = group[done].in(tx, &commit); err != nil {
				return false, failed, err
			}
			if done++; done == len(group) && done < mostParts {
				runtime.Gosched() // who has just heard of what was inserted comes, too
				group = append(group, t.queue.take(&claim)...)
			}
		}
		if claim != nil { // it finds what the others have inserted
			failed, err = claim.in(tx, &commit)
		}
		return commit, failed, err
	})
	if claim != nil {
		group = append(group, claim)
	}
	for _, p := range group {
		if p.err = err; failed != nil && p != failed {
			_, p.err = t.attempt(func(tx *sql.Tx) (commit bool, failed *part, err error) {
				failed, err = p.in(tx, &commit)
				return commit, failed, err
			})
		}
	}
	t.queue.handOn()
	for _, p := range group {
		p.turn <- false
	}
}

// in does a part in a transaction; failed is the part itself, where it fails.
func (p *part) in(tx *sql.Tx, commit *bool) (failed *part, err error) {
	wanted, err := p.work(context.WithoutCancel(p.ctx), tx)
	*commit = *commit || wanted
	if err != nil {
		return p, err
	}
	return nil, nil
}

// attempt calls work in a transaction and commits it, unless work fails or says that there is nothing to commit. Once
// begun it is not cancelled. What was done in a file to which the path leads no more, nobody sees: it is not done.
func (t *Table) attempt(work func(tx *sql.Tx) (commit bool, failed *part, err error)) (failed *part, err error) {
	conn, err := t.connect(context.Background())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(context.Background(), nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // says no more than that it was committed
	commit, failed, err := work(tx)
	if err == nil && commit {
		err = tx.Commit()
	}
	if err != nil {
		return failed, err
	}
	return nil, t.there()
}
