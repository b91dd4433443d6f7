package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"jobd/store/storetest/must"
)

// What is wanted at the same time is one transaction, in which a claim comes last and finds what the others have
// inserted. Where one fails, the others are done all the same, and no claim decides twice.
func TestTransactionsTogether(t *testing.T) {
	t.Parallel()
	refuses := errors.New("it is refused")
	for _, test := range []struct {
		name        string
		fails       string // which part
		calls, want []string
	}{
		{name: "nothing fails", calls: []string{"first", "a", "b", "claim"}, want: []string{"a", "b", "claim", "first"}},
		{name: "one fails", fails: "a", calls: []string{"first", "a", "first", "b", "claim"}, want: []string{"b", "claim", "first"}},
		{name: "the claim fails", fails: "claim", calls: []string{"first", "a", "b", "claim", "first", "a", "b"}, want: []string{"a", "b", "first"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			table := must.Get(New(Config{Path: filepath.Join(t.TempDir(), "jobs.db")}))(t)
			t.Cleanup(func() { _ = table.Close() })
			must.Do(t, table.Check(t.Context()))
			var calls []string
			parts := map[string]*part{}
			add := func(name string, claims bool) *part {
				p := &part{ctx: t.Context(), claims: claims, turn: make(chan bool, 2)}
				p.work = func(ctx context.Context, tx *sql.Tx) (bool, error) {
					calls = append(calls, name)
					if _, err := tx.ExecContext(ctx, "INSERT INTO jobs (target) VALUES (?)", name); err != nil || name == test.fails {
						return false, errors.Join(err, refuses)
					}
					return true, nil
				}
				parts[name] = p
				return p
			}
			first := add("first", false)
			insert := first.work
			first.work = func(ctx context.Context, tx *sql.Tx) (bool, error) {
				if len(parts) == 1 { // these come while it is under way
					table.queue.add(add("claim", true))
					table.queue.add(add("a", false))
					table.queue.add(add("b", false))
				}
				return insert(ctx, tx)
			}
			must.Do(t, table.do(first))
			for name, p := range parts {
				if failed := errors.Is(p.err, refuses); failed != (name == test.fails) || p.err != nil && !failed {
					t.Errorf("%s: %v", name, p.err)
				}
			}
			if !slices.Equal(calls, test.calls) {
				t.Errorf("what was done: %q, not %q", calls, test.calls)
			}
			var there []string
			must.Do(t, table.transact(t.Context(), func(ctx context.Context, tx *sql.Tx) (bool, error) {
				rows, err := tx.QueryContext(ctx, "SELECT target FROM jobs ORDER BY target")
				for err == nil && rows.Next() {
					var name string
					err = rows.Scan(&name)
					there = append(there, name)
				}
				return false, errors.Join(err, rows.Close())
			}))
			if !slices.Equal(there, test.want) {
				t.Errorf("rows: %q, not %q", there, test.want)
			}
		})
	}
}

// Who does not want to wait any longer has nothing done.
func TestATransactionIsGivenUpBeforeItBegins(t *testing.T) {
	t.Parallel()
	table := must.Get(New(Config{Path: filepath.Join(t.TempDir(), "jobs.db")}))(t)
	t.Cleanup(func() { _ = table.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	nothing := func(context.Context, *sql.Tx) (bool, error) { return false, nil }
	err := table.transact(t.Context(), func(context.Context, *sql.Tx) (bool, error) {
		cancel()
		return false, table.transact(ctx, nothing)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	waits := &part{ctx: t.Context(), turn: make(chan bool, 2), work: nothing}
	must.Do(t, table.transact(t.Context(), func(context.Context, *sql.Tx) (bool, error) {
		table.queue.add(waits)
		if !table.queue.remove(waits) {
			t.Error("it is not given up")
		}
		return false, nil
	}))
	if len(waits.turn) > 0 {
		t.Error("it is done")
	}
}
