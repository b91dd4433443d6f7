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

// ClaimClock sets the clock by which claims know how long ago they looked for the first rows.
func (t *Table) ClaimClock(now func() time.Time) { t.cursors.now = now }

// FrontInterval is how long claims may go on without a look at the first rows.
const FrontInterval = frontInterval

// BehindCursor is the locking read of a claim that goes on behind a row, with its arguments.
func (t *Table) BehindCursor(target string, room int, last int64) (query string, args []any) {
	one := t.layout.Load().Choose(rule.Ask{Target: target, Room: room, Behind: last}, nil)[0]
	return one.Query, one.Args
}
