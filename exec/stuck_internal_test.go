package exec

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Regression: while the table was locked nothing was claimed, and neither status nor log said why.
func TestAClaimThatWaitsForTheDatabaseIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := New(Config{Targets: map[string]int{"a": 1}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		check := func(said bool, lines int) {
			t.Helper()
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			why := w.hindrance(w.targets["a"], false).Why
			if got := strings.HasPrefix(why, "the claim has waited for the database since 2000-"); got != said {
				t.Errorf("status says %q", why)
			}
			if got := strings.Count(log.String(), "a claim waits for the database"); got != lines {
				t.Errorf("%d lines in the log, want %d", got, lines)
			}
		}
		over := w.watchClaim()
		time.Sleep(slowClaim - time.Second)
		check(false, 0)
		time.Sleep(time.Second)
		check(true, 0)
		time.Sleep(longClaim)
		check(true, 1)
		over(errors.New("cut off"))
		check(false, 1)
		over = w.watchClaim()
		time.Sleep(time.Minute)
		check(true, 1) // the same hitch
		over(nil)
		check(false, 1)
		over = w.watchClaim()
		time.Sleep(time.Minute)
		check(true, 2)
		over(nil)
	})
}
