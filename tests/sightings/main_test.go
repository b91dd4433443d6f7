package sightings

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// TestMain lets more tests run at once than there are processors: nearly all of them wait nearly all
// of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if atOnce := flag.Lookup("test.parallel"); atOnce.Value.String() == atOnce.DefValue {
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err) // the flag is there
		}
	}
	harness.Main(m)
}

// long tells the long form from the short one.
func long() bool { return os.Getenv("TORTURE") == "long" }

// size is a number that depends on the form.
func size(short, inLong int) int {
	if long() {
		return inLong
	}
	return short
}

// patience is how long a condition may take to come true, far longer than it ever should.
const patience = 2 * time.Minute

// await waits until condition gives ""; what it gives otherwise says what is still missing.
func await(t *testing.T, condition func() string) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	var missing string
	for begun := time.Now(); ; {
		before := missing
		if missing = condition(); missing == "" {
			if took := time.Since(begun); took > 3*time.Second {
				t.Logf("slow: for %s %s", took.Round(100*time.Millisecond), before)
			}
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("waited %s: %s", patience, missing)
		}
	}
}

// happened waits for a signal.
func happened(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(patience):
		t.Fatalf("waited %s: no %s", patience, what)
	}
}

// quiet lays poll_interval = 0 and other keys over a worker's settings.
func quiet(s harness.Settings, others ...harness.Settings) harness.Settings {
	return s.With(harness.Settings{"poll_interval": "0"}).With(others...)
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
	await(t, func() string {
		if got := r.Count(t, where, args...); got != n {
			return fmt.Sprintf("%d rows, not %d, where %s", got, n, where)
		}
		return ""
	})
}

// poll asks a worker once, about all targets where none is named, as an operator does, and waits for its answer, not for its effect.
func poll(t *testing.T, worker *harness.Daemon, targets ...string) {
	t.Helper()
	if targets == nil {
		ask(t, worker, "poll", nil)
		return
	}
	ask(t, worker, "poll", map[string]any{"targets": targets})
}

// poke asks a master once, as the application does.
func poke(t *testing.T, master *harness.Daemon, targets ...string) {
	t.Helper()
	ask(t, master, "poke", map[string]any{"targets": targets})
}

// ask sends a request that is answered with "ok".
func ask(t *testing.T, daemon *harness.Daemon, request string, data any) {
	t.Helper()
	client := harness.Dial(t, daemon.Addr)
	defer client.Close()
	var answer string
	if client.Ask(t, request, data).Decode(t, &answer); answer != "ok" {
		t.Fatalf("%s is answered with %q", request, answer)
	}
}

// ctl runs jobctl against a daemon.
func ctl(t *testing.T, daemon *harness.Daemon, words ...string) (output string, err error) {
	t.Helper()
	host, port, _ := strings.Cut(daemon.Addr, ":")
	words = append([]string{"--config=", "--host", host, "--port", port}, words...)
	out, err := exec.CommandContext(t.Context(), harness.Program(t, "jobctl"), words...).CombinedOutput()
	return string(out), err
}

// reload gives a worker another configuration and the signal to read it.
func reload(t *testing.T, worker *harness.Daemon, s harness.Settings) {
	t.Helper()
	must.Do(t, os.WriteFile(worker.Config, []byte(s.String()), 0o600))
	worker.Signal(t, syscall.SIGHUP)
}

// status is the part of a worker's status that tests look at.
type status struct {
	Targets map[string]struct {
		Paused              bool
		Concurrency, Length int
		Why                 string
	}
	Aside []struct {
		Job            int64
		Target, Reason string
	}
}

func statusOf(t *testing.T, worker *harness.Daemon) (s status) {
	t.Helper()
	client := harness.Dial(t, worker.Addr)
	defer client.Close()
	client.Ask(t, "status", nil).Decode(t, &s)
	return s
}

// awaitSays waits until a daemon's log has all of the words.
func awaitSays(t *testing.T, daemon *harness.Daemon, words ...string) {
	t.Helper()
	await(t, func() string {
		for _, word := range words {
			if !strings.Contains(daemon.Output(), word) {
				return fmt.Sprintf("the log does not say %q", word)
			}
		}
		return ""
	})
}

// events counts a job's events of some kinds, or those of all jobs where job is negative.
func events(t *testing.T, s harness.Settings, job int64, kinds ...journal.Kind) int {
	t.Helper()
	return len(timesOf(t, s, job, kinds...))
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
