package index

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"jobd/journal"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drafts are what may happen to a job, legal or not.
func drafts(r *rand.Rand) journal.Draft {
	code, job := r.IntN(4), int64(1+r.IntN(8))
	result := map[bool]string{true: "ok", false: "fail"}[code == 0]
	target := fmt.Sprint("t", r.IntN(3))
	token := fmt.Sprint("@", r.IntN(2))
	words := []string{"Error: timeout", "all good", "\x1b[31mred\x1b[0m", "Größe 12", ""}
	payloads := []journal.Payload{
		journal.Accepted{Target: target, Token: token},
		journal.Accepted{Target: target, Token: token},
		journal.Running{Attempt: 1},
		journal.Running{Attempt: 1},
		journal.Running{Attempt: 2, Executor: "fork"},
		journal.Started{Pid: 7, StartTime: 1, BootID: "b"},
		journal.Started{Pid: 7, StartTime: 1, BootID: "b"},
		journal.Done{Result: result, Code: &code, Stdout: journal.Output{Kept: []byte(words[r.IntN(len(words))])}, Reason: "because", CPU: int64(r.IntN(3)), Memory: int64(r.IntN(3)) << 20},
		journal.Done{Result: result, Code: &code},
		journal.Done{Result: "fail", Signal: "SIGKILL"},
		journal.Ignored{Reason: "no target"},
		journal.Conflict{Wanted: journal.RowIgnored, Reason: "refused"},
		journal.Retried{Target: target, From: "done", To: "waiting", By: "me"},
		journal.Conflict{Wanted: journal.WantedRetried},
		journal.Released{Reason: "stop"},
		journal.Conflict{},
		journal.Cancelled{By: "me"},
		journal.Cancelled{By: "me", Runs: true},
		journal.Signal{Signo: 15, By: "me"},
		journal.Planned{Target: target},
		journal.Requeued{Reason: "crash"},
		journal.Conflict{Token: "@9"},
		journal.Replanned{Token: token},
		journal.SetAside{Wanted: "done"},
	}
	return journal.Draft{Job: job, Payload: payloads[r.IntN(len(payloads))]}
}

// live appends what is legal of so many random drafts.
func live(r *rand.Rand, j *journaltest.Log, n int) {
	for range n {
		_, _ = j.Append(drafts(r)) // what is illegal is not appended
	}
}

// lives are whole lives of jobs.
func lives(t testing.TB, j *journaltest.Log, from, to int64) {
	t.Helper()
	for job := from; job <= to; job++ {
		journaltest.MustAppend(t, j, readtest.WholeLife(job)...)
	}
}

// told is a log of what is told.
type told struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *told) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *told) warnings() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Count(b.Bytes(), []byte("level=WARN"))
}

// indexOf is an index beside a journal. level gets something whenever it is up to the journal's end.
func indexOf(j *journaltest.Log, out *told, fault func(string) error) (x *Index, level chan struct{}) {
	level = make(chan struct{}, 1)
	x = New(Config{Dir: j.Dir, Log: j, Logger: slog.New(slog.NewTextHandler(out, nil)), linger: time.Nanosecond, pause: time.Millisecond, fault: func(step string) error {
		if fault != nil {
			if err := fault(step); err != nil {
				return err
			}
		}
		if step == "level" {
			select {
			case level <- struct{}{}:
			default:
			}
		}
		return nil
	}})
	return x, level
}

// run runs an index until use returns.
func run(t testing.TB, x *Index, use func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	use()
	cancel()
	check.Do(t, <-ended, "Run")
}

// await waits until the index is up to the journal's end.
func await(t testing.TB, x *Index, level chan struct{}) {
	t.Helper()
	for {
		select {
		case <-level:
		case <-t.Context().Done():
			t.Fatal("the index never got to the journal's end")
		}
		if s := x.Standing(t.Context()); s.Lag == 0 && s.Stopped == "" {
			return
		}
	}
}

// dump is all that a file says of jobs.
func dump(t testing.TB, x *Index) (lines []string) {
	t.Helper()
	db, _, err := open(t.Context(), x.path)
	must.Do(t, err)
	defer db.Close()
	for _, query := range []string{
		`SELECT concat_ws('|', seq, id, target, state, at, manual, attempt, executor, claimed, started, ended, code, signal, reason, job IS NULL) FROM jobs ORDER BY seq`,
		`SELECT concat_ws('|', 'failure', seq, id, target, at, failure) FROM failures ORDER BY seq`,
		`SELECT concat_ws('|', width, target, step, started, ended, failed) FROM rates ORDER BY width, target, step`,
		`SELECT concat_ws('|', 'words', seq) FROM words JOIN jobs ON seq = words.rowid WHERE words MATCH 'because' ORDER BY seq`,
	} {
		rows, err := db.QueryContext(t.Context(), query)
		err = each(rows, err, func() error {
			var line string
			err := rows.Scan(&line)
			lines = append(lines, line)
			return err
		})
		must.Do(t, err)
	}
	return lines
}

// same compares what two files say.
func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	check.Elements(t, got, want, "%s", what)
}

// anew is what an index says that is made from the journal at once.
func anew(t testing.TB, j *journaltest.Log) []string {
	t.Helper()
	x := New(Config{Dir: j.Dir, Log: j})
	x.path = t.TempDir() + "/index.db"
	bring(t, x, nil)
	return dump(t, x)
}

// bring brings a file to the journal's end, in batches of as many events as most says.
func bring(t testing.TB, x *Index, most func() int) {
	t.Helper()
	db, n, err := open(t.Context(), x.path)
	must.Do(t, err)
	w := &writer{Index: x, db: db, noted: n}
	defer w.close()
	must.Do(t, w.begin(t.Context()))
	for w.seq < x.newest() || w.swept < w.gone {
		limit := batchEvents
		if most != nil {
			if limit = most(); limit == 0 { // killed here
				return
			}
		}
		if w.seq < x.newest() {
			events, err := x.config.Log.Next(t.Context(), w.seq, limit)
			if err == nil {
				err = w.add(t.Context(), events)
			}
			must.Do(t, err)
		}
		must.Do(t, w.sweep(t.Context()))
	}
}
