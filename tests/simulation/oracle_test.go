package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"jobd/journal"
	"jobd/store"
)

// judge compares the table, the journals and what was started. Every row was inserted to be run once.
func (w *world) judge() {
	jobs := map[int64][]string{} // who has it as done
	for _, m := range w.all {
		w.judgeJournal(m, jobs)
	}
	for _, id := range slices.Sorted(maps.Keys(w.server.memory.Rows)) {
		if wrong := w.wrong(w.server.memory.Rows[id], jobs[id]); wrong != "" {
			w.violated("job %d, started with %v: %s", id, w.starts[id], wrong)
		}
	}
	if n := len(w.server.memory.Rows); n != w.jobs {
		w.violated("there are %d rows of %d", n, w.jobs)
	}
}

// wrong tells what is wrong with a row.
func (w *world) wrong(row *store.Seen, done []string) string {
	want := outcome(row.Job, 0).Result
	starts := len(w.starts[row.Job])
	switch {
	case row.Status != journal.RowDone || row.Owner != "":
		return fmt.Sprintf("its row is %s with owner %q", row.Status, row.Owner)
	case starts > 1:
		return "it was started more than once"
	case len(done) != 1:
		return fmt.Sprintf("the journals of %v have it as done", done)
	case w.unknown[row.Job]:
		return ""
	case starts == 0:
		return "it is done and was never started"
	case row.Result != want:
		return fmt.Sprintf("its row says %s, and it ended as %s", row.Result, want)
	}
	return ""
}

// judgeJournal folds a worker's journal once more. Each claim has one end, and the rows agree.
func (w *world) judgeJournal(m *machine, done map[int64][]string) {
	state, announced := journal.State{KeepEnded: true}, map[int64]time.Time{}
	for _, e := range m.history.events {
		before := state.Job(e.Job)
		if err := state.Apply(e); err != nil {
			w.violated("the journal of %s: %v", m.name, err)
			return
		}
		switch p := e.Payload.(type) {
		case journal.Running:
			announced[e.Job] = e.Time
		case journal.Done:
			done[e.Job] = append(done[e.Job], m.name)
			if w.unknown[e.Job] = p.Code == nil; w.unknown[e.Job] && !m.lostPower(announced[e.Job], e.Time) {
				w.violated("%s does not know how job %d ended, and its runner was there all the time", m.name, e.Job)
			}
		case journal.Released:
			w.releases++
		case journal.Conflict:
			w.violated("%s met a conflict about a row that nobody changed: job %d as %s, %+v, found %+v", m.name, e.Job, before.Status, p, p.Found)
		}
	}
	for _, job := range state.Unfinished() {
		w.violated("%s has not ended its claim %s of job %d: %s", m.name, job.Token, job.ID, job.Status)
	}
	if m.history.position < state.Seq {
		w.violated("the table shows %s up to %d of %d events", m.name, m.history.position, state.Seq)
	}
	for id, job := range state.Jobs {
		if row := w.server.memory.Rows[id]; !store.Agrees(*job, row) {
			w.violated("%s has job %d as %s with %s at %s, and the row is %s with %q", m.name, id, job.Status, job.Token, job.Ended.Format(time.TimeOnly), row.Status, row.Owner)
		}
	}
}

// lostPower tells whether the machine lost its power between two moments.
func (m *machine) lostPower(from, until time.Time) bool {
	return slices.ContainsFunc(m.cuts, func(at time.Time) bool { return !at.Before(from) && at.Before(until) })
}
