package exec

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Regression: while the table was locked nothing was claimed, and status did not say why.
func TestAClaimThatWaitsForTheDatabaseIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(Config{Targets: map[string]int{"a": 1}, Logger: slog.New(slog.DiscardHandler)})
		check := func(said bool) {
			t.Helper()
			w.mu.Lock()
			defer w.mu.Unlock()
			why := w.hindrance(w.targets["a"], false).Why
			if got := strings.HasPrefix(why, "the claim has waited for the database since 2000-"); got != said {
				t.Errorf("status says %q", why)
			}
		}
		w.noteAsked(time.Now())
		time.Sleep(slowClaim - time.Second)
		check(false)
		time.Sleep(time.Second)
		check(true)
		w.noteAsked(time.Time{})
		check(false)
	})
}
