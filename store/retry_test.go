package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"jobd/store"
)

// Each cause is logged once, as loud as it is bad. That a server is compared with the journal first
// is for the mirror to say: after each restart of a server a claim warned of it, too.
func TestRetryReportsEachCauseOnce(t *testing.T) {
	t.Parallel()
	gone := errors.New("no route to host")
	cases := []struct {
		name  string
		cause error
		level string
	}{
		{"a server that is gone", &store.Unreachable{Op: "connect", Err: gone}, "WARN"},
		{"a table that can't be used", &store.Unusable{Op: "check", Err: gone}, "ERROR"},
		{"a server that is not compared yet", fmt.Errorf("claim: %w", &store.AnotherServer{Reached: "two"}), "DEBUG"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				retry := store.NewRetry(logger, "claim jobs")
				for range 3 {
					if err := retry.Wait(t.Context(), c.cause); err != nil {
						t.Fatal(err)
					}
				}
				if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level="+c.level) {
					t.Errorf("logged %q, want one line of level %s", text, c.level)
				}
			})
		})
	}
}
