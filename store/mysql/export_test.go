package mysql

import (
	"database/sql"
	"time"

	"jobd/store/internal/rule"
)

// DB is the table's own pool, for tests that look at its sessions.
func (t *Table) DB() *sql.DB { return t.db }

// Pretend makes the table believe that the server has another version.
func (t *Table) Pretend(text string) error {
	v, err := parseVersion(text)
	if err != nil {
		return err
	}
	pretended := *t.layout.Load()
	pretended.version, pretended.Locking = v, " "+v.locking()
	t.layout.Store(&pretended)
	return nil
}

// PingEvery makes the connection of the advisory locks used so often. Call it before Hold.
func (t *Table) PingEvery(interval time.Duration) { t.advisory.interval = interval }

// Looks are the locking reads with which a claim of a target begins, each with its arguments.
func (t *Table) Looks(target string, room int) (queries []string, args [][]any) {
	for _, one := range t.layout.Load().Choose(rule.Ask{Target: target, Room: room}, []int64{4711}) {
		queries, args = append(queries, one.Query), append(args, one.Args)
	}
	return queries, args
}

// ClaimClock sets the clock by which claims know how old their lists are.
func (t *Table) ClaimClock(now func() time.Time) { t.candidates.now = now }

// ListAge is how old a list of candidates may become.
const ListAge = listAge

// Candidates is the query for the list of candidates of a target, and the locking read of a claim that has such a
// list; "" where claims read none.
func (t *Table) Candidates(target string, room int, ids []int64) (list, lock string) {
	found := t.layout.Load()
	if !found.Lists() {
		return "", ""
	}
	return found.Candidates(target, nil, nil, room, 0).Query, found.Choose(rule.Ask{Target: target, Room: room, IDs: ids}, nil)[0].Query
}

// PlaceOf is behind how many of the first rows a list of candidates begins.
var PlaceOf = placeOf
