package harness

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a condition may take to come true: far longer than it ever
// should, so that only a real fault fails a test on a slow machine that has much else to do.
const Patience = 2 * time.Minute

// Bounded is a context for a command that a test waits for: one that hangs is killed.
func Bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	t.Cleanup(cancel)
	return ctx
}

// interval is how often a condition is tried.
const interval = 10 * time.Millisecond

// Until tries condition until it gives "" and fails the test when Patience is
// over; what condition gives otherwise says what is still missing.
func Until(t testing.TB, condition func() string) {
	t.Helper()
	if missing := until(Patience, condition); missing != "" {
		t.Fatalf("waited %s: %s", Patience, missing)
	}
}

func until(patience time.Duration, condition func() string) string {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		missing := condition()
		if missing == "" {
			return ""
		}
		select {
		case <-again.C:
		case <-deadline.C:
			return missing
		}
	}
}
