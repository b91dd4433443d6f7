package time

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// pick is the row that a step is about, nil where there is none.
func (t *trial) pick(s step) *modelled {
	if len(t.rows) == 0 {
		return nil
	}
	return t.rows[len(t.rows)-1-s.number%len(t.rows)]
}

// insertRow adds one row of a sort, and a poke.
func (t *trial) insertRow(s step) {
	row := &modelled{id: int64(len(t.rows) + 1)}
	r := timed{id: row.id}
	at := t.now()
	switch s.number % 8 {
	case 0:
		r.status = "waiting"
	case 1:
		r.status, r.schedule = "waiting", "every 1s"
	case 2:
		r.runAt = at
	case 3:
		r.runAt = at + 1
	case 4:
		r.runAt, r.schedule = at, "every 1s"
	case 5:
		r.schedule = "every 2s"
	case 6:
		r.runAt, r.maxAttempts, r.timeout = at, 2, 2
	case 7:
		r.status, r.priority = "waiting", 3
	}
	row.recurs = r.schedule != ""
	r.uniqueKey = fmt.Sprint("key ", row.id)
	t.insert(r)
	t.rows = append(t.rows, row)
	t.poll(s)
}

// rest lets the daemons work for a moment.
func (t *trial) rest(s step) { <-time.After(time.Duration(s.number) * 100 * time.Millisecond) }

// poll pokes both workers, as an application does through their master.
func (t *trial) poll(step) {
	for _, d := range t.daemons {
		if d != nil {
			_, _ = t.ask(d, "poll") // it may be starting
		}
	}
}

// ask runs jobctl.
func (t *trial) ask(d *harness.Daemon, args ...string) (string, error) {
	host, port, _ := strings.Cut(d.Addr, ":")
	args = append([]string{"--host", host, "--port", port, "--config", "/dev/null"}, args...)
	output, err := exec.Command(harness.Program(t, "jobctl"), args...).CombinedOutput()
	t.Logf("jobctl %q: %v: %s", args, err, output)
	return string(output), err
}

// editDue has a delayed row due at once, by hand.
func (t *trial) editDue(s step) {
	if row := t.pick(s); row != nil {
		row.touched = true
		t.Exec(t, "UPDATE jobs SET run_at = UNIX_TIMESTAMP() WHERE id = ? AND status = 'delayed'", row.id)
		t.poll(s)
	}
}

// editSchedule gives a row another schedule, takes it away, or has it recur that did not. Whoever edits
// the schedule of a delayed row sets both of its times to 0.
func (t *trial) editSchedule(s step) {
	row := t.pick(s)
	if row == nil || row.ended || !row.recurs && s.worker == 1 {
		return
	}
	row.touched = true
	tx, err := t.Admin.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() // after a Commit it does nothing
	var status string
	must.Do(t, tx.QueryRowContext(t.Context(), "SELECT status FROM jobs WHERE id = ? FOR UPDATE", row.id).Scan(&status))
	schedule := any("every 2s")
	if s.worker == 1 {
		schedule = nil
	}
	if status != "done" && status != "ignored" {
		_, err = tx.ExecContext(t.Context(), "UPDATE jobs SET schedule = ?, run_at = IF(status = 'delayed', IF(? IS NULL, UNIX_TIMESTAMP(), 0), run_at), "+
			"planned_at = IF(status = 'delayed', 0, planned_at) WHERE id = ?", schedule, schedule, row.id)
		row.recurs = schedule != nil
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.poll(s)
}

// lock holds a row for a moment, as an application does that has not committed yet.
func (t *trial) lock(s step) {
	row := t.pick(s)
	if row == nil {
		return
	}
	tx := must.Get(t.Admin.BeginTx(context.WithoutCancel(t.Context()), nil))(t)
	var id int64
	if err := tx.QueryRow("SELECT id FROM jobs WHERE id = ? FOR UPDATE", row.id).Scan(&id); err != nil {
		_ = tx.Rollback()
		t.Logf("lock row %d: %v", row.id, err)
		return
	}
	t.locks.Go(func() {
		<-time.After(time.Duration(1+s.number%8) * 100 * time.Millisecond)
		_ = tx.Rollback() // it has changed nothing
	})
}

// up is a worker that runs, the step's rather than the other.
func (t *trial) up(s step) *harness.Daemon {
	if d := t.daemons[s.worker]; d != nil {
		return d
	}
	return t.daemons[1-s.worker]
}

// order has a worker do something with a row, and tells whether it did.
func (t *trial) order(s step, words ...string) (row *modelled, done bool) {
	d := t.up(s)
	if row = t.pick(s); row == nil || d == nil {
		return row, false
	}
	_, err := t.ask(d, append(words, fmt.Sprint(row.id))...)
	return row, err == nil
}

func (t *trial) retry(s step) {
	if row, done := t.order(s, "retry", "--yes"); row != nil {
		row.touched, row.keyless = true, true // also where it is not known whether it was done
		if done {
			row.retried, row.ended = true, false
		}
	}
}

func (t *trial) cancelRow(s step) {
	if row, _ := t.order(s, "cancel", "--schedule"); row != nil {
		row.touched, row.ended = true, true
	}
}

func (t *trial) runNow(s step) {
	if row, _ := t.order(s, "run-now"); row != nil {
		row.touched = true
	}
}

func (t *trial) signalRow(s step) {
	if row, _ := t.order(s, "send-signal", "KILL"); row != nil {
		row.touched = true
	}
}

func (t *trial) kill(s step) {
	if d := t.daemons[s.worker]; d != nil && d.Running() {
		d.Kill(t)
		t.daemons[s.worker] = nil
	}
}

func (t *trial) crash(s step) {
	if d := t.daemons[s.worker]; d != nil && d.Running() {
		t.crashed = true
		d.Crash(t)
		t.daemons[s.worker] = nil
	}
}

func (t *trial) killRunner(s step) {
	if pid := harness.RunnerOf(t.workers[s.worker]["journal_dir"]); pid != 0 {
		t.crashed = true
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended by itself
	}
}

func (t *trial) start(s step) {
	if t.daemons[s.worker] == nil {
		t.launch(s.worker)
	}
}
