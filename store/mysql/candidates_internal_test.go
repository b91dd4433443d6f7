package mysql

import (
	"testing"
	"time"

	"jobd/store/internal/rule"
)

// Regression: a claim that is tried once more, since the server ended its transaction, kept the candidates of the
// try before, and cut them from a list that had others or none by then.
func TestAClaimThatIsTriedAgainForgetsItsCandidates(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for name, last := range map[string]ask{
		"it is not known":          {},
		"it claims rarely":         {at: now.Add(-listAge)},
		"its list is too old":      {at: now, list: []int64{1, 2, 3}, read: now.Add(-listAge)},
		"somebody holds the first": {at: now, front: now.Add(1)},
		"its list is good":         {at: now, list: []int64{1, 2, 3}, read: now},
	} {
		c := candidates{of: map[string]ask{"a": last}, now: func() time.Time { return now }}
		again := ask{Ask: rule.Ask{Target: "a", Room: 2, IDs: []int64{7, 8}}}
		c.take(&again)
		if again.IDs != nil || again.Target != "a" || again.Room != 2 {
			t.Errorf("%s: it asks for %+v", name, again.Ask)
		}
	}
}
