package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store/reconcile"
)

// Rows that wait, were created before the history begins, and are not in it, may have run.
func TestUnknown(t *testing.T) {
	t.Parallel()
	removed := &journal.RemovedError{First: 1, Since: long}
	cases := []struct {
		name    string
		removed *journal.RemovedError
		lost    bool
		wish    reconcile.Reapply
		want    reconcile.Unknown
	}{
		{"by a whole history", nil, false, reconcile.Reapply{}, reconcile.Unknown{Name: "node-1", Begins: long, Rows: []int64{3}}},
		{"by a history whose beginning was removed", removed, false, reconcile.Reapply{}, reconcile.Unknown{Name: "node-1", Begins: long, Removed: true, Rows: []int64{3}}},
		{"since a time that the history covers", nil, false, reconcile.Reapply{Since: long}, reconcile.Unknown{Name: "node-1"}},
		{
			"since a time before it", nil, false,
			reconcile.Reapply{Since: long.Add(-time.Hour)},
			reconcile.Unknown{Name: "node-1", Begins: long, Rows: []int64{3}},
		},
		{"among some", nil, false, reconcile.Reapply{Among: []int64{1, 4}}, reconcile.Unknown{Name: "node-1", Rows: []int64{4}}},
		{"by a lost worker's history", nil, true, reconcile.Reapply{Among: []int64{1, 2, 3}}, reconcile.Unknown{Name: "node-2", Rows: []int64{2, 3}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := unknownWorld(t)
			w.history.Removed = c.removed
			c.wish.Config, c.wish.Worker = w.config(), "node-1"
			if c.lost {
				c.wish.Mirror = nil
			}
			got, err := c.wish.Unknown(t.Context())
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v, unknown (-want +got):\n%s", err, diff)
			}
		})
	}
}

// unknownWorld has a job that is done, one that was started, and rows of which the history does not
// know: one from before it begins, one that was created later.
func unknownWorld(t *testing.T) *world {
	w := newWorld(t)
	w.happen(0, long, journal.Opened{Name: "node-2"})
	w.ran(1)
	w.happen(2, long, claim(tokenTwo), journal.Running{Attempt: 1})
	w.waiting(1, 2, 3, 4)
	w.table.Rows[4].Created = second + 1
	return w
}

func TestReapplyRefusesWhereRowsAreUnknown(t *testing.T) {
	t.Parallel()
	w := unknownWorld(t)
	_, err := w.reapply(&reconcile.Reapply{})
	var unknown *reconcile.UnknownError
	if !errors.As(err, &unknown) || !strings.HasPrefix(err.Error(),
		"1 rows wait that were created before the history of node-1 begins (2023-11-14T22:13:20Z), and nobody can tell") {
		t.Fatalf("got %v, want that a row is unknown", err)
	}
	if wrote := w.table.Applies + w.table.Claims; wrote+len(w.noted) > 0 {
		t.Errorf("%d updates, journalled %v; want none of either", wrote, w.noted)
	}
	if did, err := w.reapply(&reconcile.Reapply{AcceptUnknown: true}); err != nil || len(did) != 2 {
		t.Errorf("accepted, and %v was done (%v)", did, err)
	}
	w.expect(3, `waiting "" 0 0 ""`)
}
