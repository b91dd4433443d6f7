package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jobd/store"
	"jobd/store/storetest/must"
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
				retry := store.NewRetry(logger, "claim jobs", "target", "mail")
				for range 3 {
					must.Do(t, retry.Wait(t.Context(), c.cause))
				}
				if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level="+c.level) || !strings.Contains(text, " target=mail ") {
					t.Errorf("logged %q, want one line of level %s", text, c.level)
				}
			})
		})
	}
}

// The end of an outage is told with its length, once, and as a warning where the outage was one; an
// outage whose causes tell a figure that changes does not fill the log.
func TestRetryReportsTheEndOfAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		retry := store.NewRetry(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), "claim jobs")
		retry.Over()
		if log.Len() > 0 {
			t.Errorf("logged %q before anything was wrong", log.String())
		}
		began := time.Now()
		for i := range 30 {
			must.Do(t, retry.Wait(t.Context(), fmt.Errorf("%d MiB are free", i)))
		}
		took := time.Since(began).Round(time.Millisecond)
		retry.Over()
		retry.Over()
		text := log.String()
		if strings.Count(text, "trying again") != 10 || strings.Count(text, "\n") != 11 {
			t.Errorf("logged %q, want ten causes and one end", text)
		}
		if want := fmt.Sprintf(`level=WARN msg="claim jobs succeeds again" after=%v`+"\n", took); !strings.HasSuffix(text, want) {
			t.Errorf("logged %q, want at its end %q", text, want)
		}
		log.Reset()
		if err := retry.Wait(t.Context(), errors.New("0 MiB are free")); err != nil || log.Len() == 0 {
			t.Errorf("the next outage: %v, logged %q", err, log.String())
		}
	})
}
