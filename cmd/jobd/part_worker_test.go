package main

import (
	"context"
	"fmt"
	"testing"

	jobexec "jobd/exec"
)

// Regression: where the last try at a name that another worker has was cut short by the time that a
// start may take, the start went on, and its worker ran without a name.
func TestANameIsTakenThoughTheLastTryIsCutShort(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	taken, err := takeName(ctx, func(ctx context.Context) error {
		if tries++; tries == 1 {
			return fmt.Errorf("first: %w", &jobexec.NameTakenError{Name: "node-1", Holder: "connection 7"})
		}
		cancel()
		return ctx.Err()
	})
	if err != nil || taken == nil || taken.Holder != "connection 7" || tries != 2 {
		t.Errorf("after %d tries: %v, %v", tries, taken, err)
	}
}
