package time

import (
	"encoding/json"
	"fmt"
	"strings"

	"jobd/journal"
)

// heal starts what was killed, and lets locks go.
func (t *trial) heal() {
	t.locks.Wait()
	for i, d := range t.daemons {
		if d != nil && !d.Running() {
			t.violated("worker ended", "w%d ended by itself", i+1)
		}
		if d == nil {
			t.launch(i)
		}
	}
	for _, d := range t.daemons {
		d.Ready(t)
	}
	t.poll(step{})
}

// settle waits until every row is at its end, or has recurred twice more.
func (t *trial) settle() {
	before := map[int64]int{}
	for _, begun := range t.oracle.starts(t) {
		before[begun.id]++
	}
	missing := ""
	if !within(func() bool {
		missing = t.unsettled(before)
		return missing == ""
	}) {
		t.violated("stranded", "%s", missing)
	}
}

// within is harness.Until that fails nothing.
func within(condition func() bool) (held bool) {
	deadline := newDeadline()
	defer deadline.stop()
	for !condition() {
		if !deadline.again() {
			return condition()
		}
	}
	return true
}

func (t *trial) unsettled(before map[int64]int) string {
	now := map[int64]int{}
	for _, begun := range t.oracle.starts(t) {
		now[begun.id]++
	}
	for _, r := range t.rowsOf() {
		ended := r.status == "done" || r.status == "ignored"
		switch row := t.rows[r.id-1]; {
		case ended && (!row.recurs || row.ended || row.touched):
		case ended:
			return fmt.Sprintf("%s does not recur any more", r)
		case !row.recurs || row.ended && r.schedule == "":
			return r.String()
		case now[r.id] < before[r.id]+2:
			return fmt.Sprintf("%s was started %d times since all is well", r, now[r.id]-before[r.id])
		}
	}
	return ""
}

func (t *trial) rowsOf() []timed { return t.site.rows("TRUE") }

// judge compares the table, the oracle and the journals.
func (t *trial) judge() {
	if rows := t.rowsOf(); len(rows) != len(t.rows) {
		t.violated("rows", "there are %d, and %d were inserted", len(rows), len(t.rows))
	}
	for _, r := range t.rowsOf() {
		t.judgeRow(r)
	}
	t.judgeStarts()
	t.judgeJournals()
}

// judgeRow holds a row that has ended against what its job does.
func (t *trial) judgeRow(r timed) {
	row := t.rows[r.id-1]
	if r.status == "done" || r.status == "ignored" {
		if r.uniqueKey != "" {
			t.violated("unique key", "%s keeps %q", r, r.uniqueKey)
		}
	} else if r.uniqueKey == "" && !row.keyless {
		t.violated("unique key", "%s has none any more", r)
	}
	if r.status == "ignored" && !row.ended {
		t.violated("ignored", "%s, and nobody wanted that", r)
	}
	if r.status != "done" || row.touched || t.crashed {
		return
	}
	most := int64(modelAttempts)
	if r.maxAttempts > 0 {
		most = r.maxAttempts
	}
	want := map[int64]struct {
		result   string
		attempts int64
	}{4: {"fail", most}, 5: {"fail", 1}, 6: {"fail", most}, 7: {"ok", 2}}[r.id%8]
	if want.result == "" {
		want.result, want.attempts = "ok", 1
	}
	if r.result != want.result || r.attempts != want.attempts {
		t.violated("wrong outcome", "%s: want %+v", r, want)
	}
}

// judgeStarts counts how often each job was started, and when.
func (t *trial) judgeStarts() {
	type run struct {
		id, planned int64
		attempt     int
	}
	runs, planned := map[run]int{}, map[int64]int64{}
	for _, begun := range t.oracle.starts(t) {
		row := t.rows[begun.id-1]
		if begun.attempt > begun.most || begun.most > modelAttempts {
			t.violated("attempts", "%s", begun)
		}
		if row.touched {
			continue
		}
		r := run{begun.id, begun.planned, begun.attempt}
		if runs[r]++; runs[r] > 1 && row.recurs {
			t.violated("doubled", "%s, %d times", begun, runs[r])
		}
		if begun.planned < planned[begun.id] {
			t.violated("doubled", "%s, behind a run that was planned for %d", begun, planned[begun.id])
		}
		planned[begun.id] = begun.planned
	}
}

// judgeJournals verifies the journals, and looks for what was claimed before its time, started twice, or met as a
// conflict that nobody had made.
func (t *trial) judgeJournals() {
	type began struct {
		job     int64
		token   string
		attempt int
	}
	times, starts := map[began]bool{}, map[int64]int{}
	seen := t.oracle.starts(t) // first: what recurs goes on meanwhile
	for i, settings := range t.workers {
		idle(t, t.daemons[i])
		verifyJournal(t, settings)
		for _, e := range events(t, settings) {
			switch p := e.Payload.(type) {
			case journal.Accepted:
				if p.From == journal.RowDelayed && e.Time.Unix() < p.Plan.RunAt {
					t.violated("too early", "w%d claimed job %d at %d, due at %d", i+1, e.Job, e.Time.Unix(), p.Plan.RunAt)
				}
			case journal.Running:
				if b := (began{e.Job, p.Token, p.Attempt}); !times[b] { // it may be announced more than once
					times[b] = true
					starts[e.Job]++
				}
			case journal.Conflict:
				if row := t.rows[e.Job-1]; !row.touched {
					t.violated("conflict", "w%d: job %d: %+v", i+1, e.Job, p)
				}
			}
		}
		t.judgeDiff(i)
	}
	for _, begun := range seen {
		if starts[begun.id]--; starts[begun.id] < 0 {
			t.violated("doubled", "%s, more often than the journals know", begun)
		}
	}
}

// judgeDiff asks whether rows say what the journal says, but for those that somebody has touched.
func (t *trial) judgeDiff(i int) {
	wrong := ""
	within(func() bool {
		wrong = ""
		output, err := t.ask(t.daemons[i], "--output", "json", "journal", "diff")
		for line := range strings.Lines(output) {
			var d struct{ Job int64 }
			if json.Unmarshal([]byte(line), &d) == nil && d.Job != 0 && !t.rows[d.Job-1].touched {
				wrong += line
			}
		}
		if err != nil && wrong == "" && !strings.Contains(output, `"job"`) && !strings.Contains(output, "somebody else changed") {
			wrong = output
		}
		return wrong == ""
	})
	if wrong != "" {
		t.violated("diff", "w%d: %s", i+1, wrong)
	}
}
