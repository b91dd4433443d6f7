package sightings

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 6) } // nearly all of them wait nearly all of the time

// size is a number that depends on the form: TORTURE=long chooses the long one.
func size(short, inLong int) int {
	if os.Getenv("TORTURE") == "long" {
		return inLong
	}
	return short
}

// rows is a jobs table as its application reaches it.
type rows interface {
	Exec(t testing.TB, statement string, args ...any)
	Count(t testing.TB, where string, args ...any) int
}

// insert adds rows as the application does.
func insert(t *testing.T, r rows, target, status string, ids ...int64) {
	t.Helper()
	values := make([]string, len(ids))
	args := make([]any, 0, 4*len(ids))
	for i, id := range ids {
		values[i] = "(?, ?, ?, ?)"
		args = append(args, id, target, time.Now().Unix(), status)
	}
	r.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES "+strings.Join(values, ", "), args...)
}

// span is the ids from one to another.
func span(from, to int64) []int64 {
	ids := make([]int64, 0, to-from+1)
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}

// awaitCount waits until a condition holds for n rows.
func awaitCount(t *testing.T, r rows, n int, where string, args ...any) {
	t.Helper()
	harness.Until(t, func() string {
		if got := r.Count(t, where, args...); got != n {
			return fmt.Sprintf("%d rows, not %d, where %s", got, n, where)
		}
		return ""
	})
}

// poll asks a worker once, as an operator does, and waits for its answer, not for its effect.
func poll(t *testing.T, worker *harness.Daemon) {
	t.Helper()
	client := harness.Dial(t, worker.Addr)
	defer client.Close()
	var answer string
	if client.Ask(t, "poll", nil).Decode(t, &answer); answer != "ok" {
		t.Fatalf("poll is answered with %q", answer)
	}
}

// awaitSays waits until a daemon's log has all of the words.
func awaitSays(t *testing.T, daemon *harness.Daemon, words ...string) {
	t.Helper()
	harness.Until(t, func() string {
		for _, word := range words {
			if !strings.Contains(daemon.Output(), word) {
				return fmt.Sprintf("the log does not say %q", word)
			}
		}
		return ""
	})
}

// timesOf are the times of these events.
func timesOf(t *testing.T, s harness.Settings, job int64, kinds ...journal.Kind) (times []time.Time) {
	t.Helper()
	reader := must.Get(replay.Open(s["journal_dir"]))(t)
	for e, err := range reader.Events(t.Context(), journal.Filter{Kinds: kinds}) {
		if err != nil {
			t.Fatal(err)
		}
		if job < 0 || e.Job == job {
			times = append(times, e.Time)
		}
	}
	return times
}
