package store_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest"
)

// replayed is a job by replay of the whole journal.
func replayed(t *testing.T, j *eventlog.Log, id int64) journal.Job {
	t.Helper()
	state := journal.State{KeepEnded: true}
	for _, e := range history(t, j) {
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return state.Job(id)
}

// A clock that was set back while a job ran: the row tells the end that the done event names, and
// not the event's own time; a comparison with the journal agrees with it, and a row that was behind
// gets the same end on another server.
func TestTheEndThatADoneEventNamesIsShown(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	m := onServer(j, table, returned)
	run(t, m)
	await(t, "claims", returned)
	finish := time.Now().Add(time.Hour)
	for id := int64(1); id <= 2; id++ {
		table.Put(id, journal.RowAccepted, token(id))
		done := journal.Done{Result: "ok", Finished: finish.UnixMicro(), Elapsed: 1, Token: token(id)}
		newest := add(t, j, accepted(id, token(id)), running(id), journal.Draft{Job: id, Payload: done})
		await(t, "its end", m.Shown(newest, id))
	}
	check := func() {
		t.Helper()
		for id := int64(1); id <= 2; id++ {
			table.Change(func() {
				row := table.Rows[id]
				if row.Finished != finish.Unix() {
					t.Errorf("row %d ended at %d, want %d", id, row.Finished, finish.Unix())
				}
				if job := replayed(t, j, id); !store.Agrees(job, row) {
					t.Errorf("row %+v does not agree with %+v", row, job)
				}
			})
		}
	}
	check()
	table.Change(func() {
		table.Reached = "two"
		row := table.Rows[1] // row 2 is as it is
		row.Status, row.Owner, row.Result, row.Finished = journal.RowRunning, token(1), "", 0
	})
	m.CheckServer()
	await(t, "claims on the new server", returned)
	check()
	met := []journal.Server{{Server: "one"}, {Server: "two", Before: "one", Mended: 1}}
	if diff := cmp.Diff(met, of[journal.Server](t, j)); diff != "" {
		t.Errorf("journalled (-want +got):\n%s", diff)
	}
}

// A row that should have become ignored, and did not, is left alone on another server too, and counts
// as in agreement.
func TestARowThatCouldNotBeIgnoredIsLeftAlone(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	m := onServer(j, table, returned)
	run(t, m)
	await(t, "claims", returned)
	table.Put(1, journal.RowManual, "")
	table.Put(2, journal.RowManual, "")
	ignored := journal.Ignored{Reason: "target 'c' not found"}
	undone := journal.Conflict{Wanted: journal.RowIgnored, Reason: "a trigger"}
	newest := add(t, j, journal.Draft{Job: 1, Payload: ignored}, journal.Draft{Job: 2, Payload: ignored}, journal.Draft{Job: 1, Payload: undone})
	await(t, "all", m.Shown(newest, 0))
	table.Change(func() { table.Reached = "two" })
	m.CheckServer()
	await(t, "claims on the new server", returned)
	if got := table.Read(1) + table.Read(2); got != "manual ignored " {
		t.Errorf("rows %q", got)
	}
	for id, status := range map[int64]journal.Status{1: journal.StatusConflict, 2: journal.StatusIgnored} {
		job := replayed(t, j, id)
		if job.Status != status || !store.Agrees(job, table.Rows[id]) {
			t.Errorf("job %+v, want %s, in agreement with %+v", job, status, table.Rows[id])
		}
	}
	met := []journal.Server{{Server: "one"}, {Server: "two", Before: "one", Mended: 1}}
	if diff := cmp.Diff(met, of[journal.Server](t, j)); diff != "" {
		t.Errorf("journalled (-want +got):\n%s", diff)
	}
}
