package store_test

import (
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest"
)

// A claim that was cancelled before it was started makes its row ignored, by the mirror, and by the
// comparison with a server that lagged: whatever the row says there of that claim.
func TestCancelledClaimsAreMirroredAndMended(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	m := onServer(j, table, returned)
	run(t, m)
	await(t, "claims", returned)
	var newest uint64
	for id := int64(1); id <= 3; id++ {
		table.Put(id, journal.RowAccepted, token(id))
		add(t, j, accepted(id, token(id)))
		if id == 2 { // announced, and not started yet
			add(t, j, running(id))
		}
		newest = add(t, j, journal.Draft{Job: id, Payload: journal.Cancelled{By: "10.0.0.5:4711", Token: token(id)}})
	}
	table.Put(4, journal.RowAccepted, token(4)) // it runs, and somebody cancels it
	newest = max(newest, add(t, j, accepted(4, token(4)), running(4), journal.Draft{Job: 4, Payload: journal.Cancelled{By: "10.0.0.5:4711", Runs: true, Token: token(4)}}))
	await(t, "all of it", m.Shown(newest, 0))
	check := func(where string) {
		t.Helper()
		for id, want := range map[int64]string{1: "ignored ", 2: "ignored ", 3: "ignored ", 4: "running " + token(4)} {
			if got := table.Read(id); got != want {
				t.Errorf("%s: row %d is %q, want %q", where, id, got, want)
			}
		}
	}
	check("mirrored")
	table.Change(func() {
		table.Reached = "two"
		for id, row := range map[int64]journal.Row{
			1: {Status: journal.RowWaiting}, 2: {Status: journal.RowRunning, Owner: token(2)}, 3: {Status: journal.RowAccepted, Owner: token(3)},
			4: {Status: journal.RowAccepted, Owner: token(4)},
		} {
			row.Job, row.Target = id, "a"
			table.Rows[id] = &store.Seen{Row: row}
		}
	})
	m.CheckServer()
	await(t, "claims on the new server", returned)
	check("mended")
}
