package store_test

import (
	"errors"
	"fmt"
	"testing"

	"jobd/store"
)

// Only where no server is known yet is it nothing but the start's own way.
func TestAClaimBeforeTheFirstServerIsNothingWrong(t *testing.T) {
	t.Parallel()
	for confirmed, passing := range map[string]bool{"": true, "one": false} {
		err := fmt.Errorf("claim waiting jobs: %w", &store.AnotherServer{Reached: "two", Confirmed: confirmed})
		var known interface{ Passing() bool }
		if !errors.As(err, &known) || known.Passing() != passing {
			t.Errorf("%v: passing is not %v", err, passing)
		}
	}
}
