package gearman

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/gearman"
	"jobd/store/storetest/must"
)

// Who submits the same job is told the same handle, and gets the first one's result; per function. Once that is over,
// it is a new job.
func TestCoalescing(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	a, b := connect(t, address), connect(t, address)
	submit := func(p *peer, kind gearman.Kind, function, unique, workload string) string {
		p.send(kind, function, unique, workload)
		return p.want(gearman.JobCreated)
	}
	first := submit(a, gearman.SubmitJob, "f", "u", "1")
	for what, handle := range map[string]string{
		"another client":      submit(b, gearman.SubmitJob, "f", "u", "2"),
		"in the background":   submit(b, gearman.SubmitJobBg, "f", "u", "3"),
		"with other priority": submit(b, gearman.SubmitJobLow, "f", "u", "4"),
	} {
		if handle != first {
			t.Errorf("%s: %s, not %s", what, handle, first)
		}
	}
	others := []string{
		first, submit(a, gearman.SubmitJobBg, "g", "u", "1"), submit(a, gearman.SubmitJobBg, "f", "", "1"), submit(a, gearman.SubmitJobBg, "f", "", "1"),
		submit(a, gearman.SubmitJobBg, "f", "-", "1"), submit(a, gearman.SubmitJobBg, "f", "-", "2"),
	}
	if slices.Sort(others); len(slices.Compact(others)) != 6 {
		t.Errorf("jobs that are different: %s", others)
	}
	if again := submit(b, gearman.SubmitJobBg, "f", "-", "2"); !slices.Contains(others, again) {
		t.Errorf("the same workload is another job: %s", again)
	}
	runner := able(t, address, "f")
	w.mu.Lock()
	w.held = false
	w.mu.Unlock()
	w.run()
	if got := runner.grab(); got != first+"\x00f\x00u\x001" {
		t.Errorf("assigned: %q", got)
	}
	runner.send(gearman.WorkComplete, first, "done")
	for _, p := range []*peer{a, b, b} { // b has submitted it twice in the foreground
		p.want(gearman.WorkComplete, first, "done")
	}
	<-w.ends
	if again := submit(a, gearman.SubmitJobBg, "f", "u", "1"); again == first {
		t.Error("a job that is over was joined")
	}
	a.send(gearman.SubmitJob, "f", strings.Repeat("u", 65), "")
	a.want(gearman.Error, "ARGUMENT_TOO_LARGE")
}

// A submission that meets a job which the journal has ended and the table not yet waits for the table, and what its
// client has submitted behind it waits for its turn. Nobody else waits.
func TestUniqueIDOfAJobThatHasJustEnded(t *testing.T) {
	t.Parallel()
	shown := make(chan struct{})
	w, address := start(t, func(_ *Config, p *Parts) {
		p.Shown = func(uint64, int64) <-chan struct{} { return shown }
	})
	w.held = true
	p := connect(t, address)
	p.send(gearman.SubmitJobBg, "f", "u", "1")
	p.want(gearman.JobCreated, "H:node:1")
	w.front.Committed([]journal.Event{{Seq: 5, Job: 1, Payload: journal.Done{Result: "ok"}}})
	p.send(gearman.SubmitJobBg, "f", "u", "1")
	p.send(gearman.SubmitJobBg, "f", "", "2")
	p.synced()
	other := connect(t, address)
	other.send(gearman.SubmitJobBg, "f", "", "3")
	other.want(gearman.JobCreated)
	must.Get(w.db.Exec("UPDATE jobs SET status = 'done', unique_key = NULL WHERE id = 1"))(t)
	close(shown)
	id := w.front.idOf(p.want(gearman.JobCreated))
	if got := w.row(id, "CAST(workload AS TEXT)"); id == 1 || got != "1" {
		t.Errorf("it became job %d with workload %s", id, got)
	}
	p.want(gearman.JobCreated)
}

func TestLastClientGoes(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	stays, goes := connect(t, address), connect(t, address)
	goes.send(gearman.SubmitJob, "f", "alone", "")
	handle := goes.want(gearman.JobCreated)
	for _, p := range []*peer{stays, goes} {
		p.send(gearman.SubmitJob, "f", "shared", "")
		p.want(gearman.JobCreated)
	}
	goes.send(gearman.SubmitJob, "f", "wanted", "")
	goes.want(gearman.JobCreated)
	stays.send(gearman.SubmitJobBg, "f", "wanted", "")
	stays.want(gearman.JobCreated)
	must.Do(t, goes.conn.Close())
	wish := <-w.cancels
	if len(wish.IDs) != 1 || w.front.handle(wish.IDs[0]) != handle || !wish.Unstarted || !wish.Rows {
		t.Errorf("cancelled: %+v; only %s has lost its last client", wish, handle)
	}
}

// Who submits a job with the unique id of one that is being cancelled, because its last client is gone, does not join
// that one.
func TestNobodyJoinsAJobThatIsBeingCancelled(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	goes, comes := connect(t, address), connect(t, address)
	goes.send(gearman.SubmitJob, "f", "u", "1")
	goes.want(gearman.JobCreated, "H:node:1")
	goes.send(gearman.SubmitJob, "f", "other", "1") // the second cancellation waits for the first one
	goes.want(gearman.JobCreated, "H:node:2")
	cancelling := make(chan struct{})
	w.mayCancel = cancelling
	must.Do(t, goes.conn.Close())
	<-w.cancels // it is under way
	comes.send(gearman.SubmitJobBg, "f", "u", "2")
	comes.synced()
	close(cancelling)
	if handle := comes.want(gearman.JobCreated); handle == "H:node:1" {
		t.Error("it joined the job that is cancelled")
	}
}

// What ended before this start is shown by the table before anybody joins a row.
func TestWhatEndedBeforeTheStartIsShownFirst(t *testing.T) {
	t.Parallel()
	shown := make(chan struct{})
	w, address := start(t, func(_ *Config, p *Parts) { p.CaughtUp = shown })
	w.held = true
	must.Get(w.db.Exec("INSERT INTO jobs (id, target, time_created, status, workload, unique_key) VALUES (1, 'f', 1, 'running', '1', ?)", keyOf("f", "u", nil)))(t)
	p := connect(t, address)
	p.send(gearman.SubmitJobBg, "f", "u", "2")
	must.Get(w.db.Exec("UPDATE jobs SET status = 'done', unique_key = NULL WHERE id = 1"))(t)
	close(shown)
	if handle := p.want(gearman.JobCreated); handle == "H:node:1" {
		t.Error("it joined the job that is over")
	}
}

func TestDelayedJob(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	p := connect(t, address)
	p.send(gearman.SubmitJobEpoch, "f", "", "4000000000", "later")
	p.want(gearman.JobCreated, "H:node:1")
	p.send(gearman.SubmitJobEpoch, "f", "", "5", "now")
	p.want(gearman.JobCreated, "H:node:2")
	p.send(gearman.SubmitJobEpoch, "f", "", "soon", "")
	p.want(gearman.Error, "INVALID_ARGUMENT")
	p.send(gearman.SubmitJobEpoch, "f", "", "4102444800000", "in milliseconds")
	p.want(gearman.Error, "INVALID_ARGUMENT")
	if got := w.row(1, "status || run_at") + w.row(2, "status || run_at"); got != "delayed4000000000waiting0" {
		t.Errorf("rows: %s", got)
	}
}

// A submission that meets a job whose end the table does not take is refused, and nothing else is. What its client
// submits just then is answered behind it.
func TestUniqueIDOfAJobWhoseRowIsLocked(t *testing.T) {
	t.Parallel()
	var p *peer
	w, address := start(t, func(_ *Config, parts *Parts) {
		parts.Shown = func(uint64, int64) <-chan struct{} {
			for range 2 {
				p.send(gearman.SubmitJobBg, "f", "", "1")
			}
			<-time.After(50 * time.Millisecond) // it is read, and comes in when this transaction is over
			return nil
		}
	})
	w.held = true
	p = connect(t, address)
	p.send(gearman.SubmitJobBg, "f", "u", "1")
	p.want(gearman.JobCreated, "H:node:1")
	w.front.Committed([]journal.Event{{Seq: 5, Job: 1, Payload: journal.Done{Result: "ok"}}})
	p.send(gearman.SubmitJobBg, "f", "u", "1")
	for _, want := range []gearman.Kind{gearman.Error, gearman.JobCreated, gearman.JobCreated} {
		p.want(want)
	}
}

// A claim in the same transaction fails, and so that is undone, and the submission made once more: its client is told
// of one job, and hears of its end once.
func TestATransactionIsMadeOnceMore(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	w.front.Table.Confirm(must.Get(w.front.Table.Server(t.Context()))(t))
	runner, p := able(t, address, "f"), connect(t, address)
	other := must.Get(w.db.Conn(t.Context()))(t)
	defer other.Close()
	jobs := 0
	together := func(wait time.Duration) bool {
		jobs++
		must.Get(other.ExecContext(t.Context(), "BEGIN IMMEDIATE"))(t)
		p.send(gearman.SubmitJob, "f", "", "1")
		<-time.After(wait) // it waits for that transaction, and the claim for its own
		found := make(chan int, 1)
		go func() {
			n := 0
			_ = w.front.Table.Claim(t.Context(), map[string]int{"f": 100}, nil, func(rows []journal.Row) ([]journal.Event, error) {
				n = len(rows)
				return nil, errors.New("the journal's disk is full")
			})
			found <- n
		}()
		<-time.After(wait)
		must.Get(other.ExecContext(t.Context(), "ROLLBACK"))(t)
		p.want(gearman.JobCreated)
		return <-found == jobs
	}
	for wait := 50 * time.Millisecond; !together(wait); wait *= 2 { // the host was too busy
	}
	w.mu.Lock()
	w.held = false
	w.mu.Unlock()
	w.run()
	for range jobs {
		handle, _, _ := strings.Cut(runner.grab(), "\x00")
		runner.send(gearman.WorkComplete, handle, "done")
		p.want(gearman.WorkComplete, handle, "done")
	}
	p.synced()
	in := w.front.intake
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.jobs)+len(in.waits)+len(in.memory)+len(in.leaving)+in.kept > 0 {
		t.Errorf("left behind: jobs %v, clients %d, workloads %d of %d bytes, cancelled %v", in.jobs, len(in.waits), len(in.memory), in.kept, in.leaving)
	}
}

// Where nothing is inserted, a workload names a row.
func TestNamedRows(t *testing.T) {
	t.Parallel()
	rows := []journal.Row{{Job: 1, Target: "f", Status: journal.RowManual}, {Job: 2, Target: "f", Status: journal.RowWaiting}}
	var w *worker
	w, address := start(t, func(c *Config, p *Parts) {
		c.Table = nil
		p.Rows = func(_ context.Context, ids []int64) ([]journal.Row, error) {
			return slices.DeleteFunc(slices.Clone(rows), func(r journal.Row) bool { return !slices.Contains(ids, r.Job) }), nil
		}
		p.Worker = manual{p.Worker}
	})
	w.targets["f"] = 1
	p := connect(t, address)
	p.send(gearman.SubmitJob, "f", "", "1")
	p.want(gearman.JobCreated, "H:node:1")
	p.want(gearman.WorkComplete, "H:node:1", "by hand")
	p.send(gearman.SubmitJobBg, "f", "", "2")
	p.want(gearman.JobCreated, "H:node:2")
	for _, odd := range [][]string{{"f", "", "3"}, {"f", "", "a workload"}, {"g", "", "1"}, {"f", "", "2"}, {"f", "", ""}} {
		p.send(gearman.SubmitJob, odd...)
		p.want(gearman.Error, "no_such_row")
	}
	p.send(gearman.GetStatus, "H:node:2")
	p.want(gearman.StatusRes, "H:node:2", "1", "0", "0", "0")
	p.says("show jobs\n", "ERR jobs of a table on a server are not listed here; jobctl lists them\r\n")
	p.says("cancel job H:node:3\n", "ERR UNKNOWN_JOB\r\n")
	p.says("cancel job H:node:2\n", "OK\r\n")
	if wish := <-w.cancels; !slices.Equal(wish.IDs, []int64{2}) {
		t.Errorf("cancelled: %+v", wish)
	}
}

// Targets are functions of the next start if they have rows that were submitted: others are another worker's.
func TestFunctionsOfRows(t *testing.T) {
	t.Parallel()
	w, address := start(t, nil)
	w.held = true
	p := connect(t, address)
	for _, name := range []string{"f", "g"} {
		p.send(gearman.SubmitJobBg, name, "", "")
		p.want(gearman.JobCreated)
	}
	must.Get(w.db.Exec("UPDATE jobs SET status = 'done' WHERE target = 'g'"))(t)
	must.Get(w.db.Exec("INSERT INTO jobs (target, time_created, status) VALUES ('another', 1, 'waiting')"))(t)
	if names := must.Get(w.front.Table.Functions(t.Context()))(t); !slices.Equal(names, []string{"f"}) {
		t.Errorf("functions: %q", names)
	}
}

// manual runs rows by hand.
type manual struct{ Worker }

func (m manual) GivenBack([]string) {}

func (m manual) RunManual(_ context.Context, ids []int64, _ string) (answer jobexec.Answer[jobexec.Result], err error) {
	answer.Jobs = map[int64]jobexec.Result{ids[0]: {Result: "ok", Stdout: cmp.Or("by hand")}}
	return answer, nil
}
