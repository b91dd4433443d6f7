package exec_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// tokenPrefix is what tokens of the worker under test begin with.
func tokenPrefix(t *testing.T) string {
	t.Helper()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	var token string
	f.journal.View(func(s *journal.State) { token = s.Job(1).Token })
	p.exit(0)
	f.wait("job is done", ended(1))
	return token[:5]
}

func TestALostJournal(t *testing.T) {
	t.Parallel()
	ours := tokenPrefix(t)
	row := func(id int64, target, status, owner string) journal.Row {
		return journal.Row{Job: id, Target: target, Status: status, Owner: owner}
	}
	tab := newTable(
		row(1, "a", journal.RowRunning, ours+"aaaaa"), row(2, "elsewhere", journal.RowAccepted, ours+"bbbbb"),
		row(3, "a", journal.RowRunning, "@zzzzzzzzz"), row(4, "a", journal.RowRunning, ""),
		row(5, "elsewhere", journal.RowRunning, ""), row(6, "a", journal.RowDone, ""),
	)
	f := newFixture(t, tab, nil)
	f.start()
	f.wait("both are ended", func(s *journal.State) bool { return s.Seq >= 8 && len(s.Jobs) == 0 })
	for id := int64(1); id <= 6; id++ {
		want := ""
		if id <= 2 {
			want = "accepted running done"
		}
		if got := words(f.story(id)); got != want {
			t.Errorf("story of job %d: %q, want %q", id, got, want)
		}
	}
	done := f.outcome(1)
	if want := "jobd: outcome unknown: the claim's journal was lost\n"; done.Result != "fail" || string(done.Stderr.Kept) != want {
		t.Errorf("ended with %+v, want %q", done, want)
	}
	if got := f.worker.Status().UnownedRows; got != 1 {
		t.Errorf("%d rows of no worker, want 1", got)
	}
}

// Regression: only a new journal looked for such rows. One restored from a copy, or a table set
// back, left them running for ever.
func TestRowsOfOursThatAnOldJournalDoesNotKnowEnd(t *testing.T) {
	t.Parallel()
	ours := tokenPrefix(t)
	tab := newTable(journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: ours + "aaaaa"}, waiting(2, "a"))
	f := newFixture(t, tab, nil)
	if _, err := f.journal.Append(journal.Draft{Payload: journal.Opened{Name: "node-1"}}); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.next().exit(0)
	f.wait("the other job is done", ended(2))
	f.wait("it is at its end", func(s *journal.State) bool { return len(s.Jobs) == 0 && s.Seq >= 10 })
	if got := words(f.story(1)); got != "accepted running done" {
		t.Errorf("story of job 1: %q", got)
	}
}

func TestNothingIsClaimedWhileTheDiskIsLow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), manual(2, "a")), nil)
	f.disk.set(errors.New("1 MiB is free"))
	f.start()
	<-f.disk.checked
	if got := f.table.status(1); got != journal.RowWaiting {
		t.Errorf("job is %s while the disk is low", got)
	}
	f.disk.set(nil)
	f.next().exit(0)
	f.wait("job is done when there is room again", ended(1))
}

// A row that the mirror still owes something is left to it, however long that takes.
func TestARowThatTheMirrorOwesIsNotLost(t *testing.T) {
	t.Parallel()
	ours := tokenPrefix(t)
	row := journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: ours + "aaaaa"}
	f := newFixture(t, newTable(row), nil)
	left(t, f.journal, journal.Accepted{Target: "a", Token: row.Owner}, journal.Running{Attempt: 1}, journal.Done{Result: "ok"})
	owed := make(chan struct{})
	f.mirror.quarantined = map[int64]chan struct{}{1: owed}
	f.start()
	<-f.table.selected
	f.table.insert(waiting(2, "a"))
	f.worker.PollAll()
	f.next().exit(0)
	f.wait("the other job is done", ended(2))
	f.table.insert(journal.Row{Job: 1, Target: "a", Status: journal.RowDone})
	close(owed)
	f.table.insert(waiting(3, "a"))
	f.worker.PollAll()
	f.next().exit(0)
	f.wait("another job is done", ended(3))
	if got := words(f.story(1)); got != "accepted running done" {
		t.Errorf("story %q", got)
	}
}

// What the journal's history knows is at its end is not lost, also where that is found behind an outage: the
// row is behind, as after a failover to a replica that lags.
//
// Regression: after a table was restored in place there was one message a row, at each look again. There
// is one for all, which names some and what mends them.
func TestRowsBehindTheJournalAreToldOnceForAll(t *testing.T) {
	t.Parallel()
	ours := tokenPrefix(t)
	const rows = 150
	tab := newTable()
	for id := int64(1); id <= rows; id++ {
		tab.insert(journal.Row{Job: id, Target: "a", Status: journal.RowRunning, Owner: fmt.Sprintf("%s%05d", ours, id)})
	}
	log := &told{wrote: make(chan struct{}, 1)}
	looks := make(chan struct{}, 10*rows)
	f := newFixture(t, tab, func(c *jobexec.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(log, nil))
		c.Knows = func(_ context.Context, job int64, _ string) (bool, *journal.Accepted) {
			if job == rows {
				looks <- struct{}{}
			}
			return true, nil
		}
	})
	f.mirror.seen = make(chan struct{}, 1)
	outage := func() {
		f.mirror.setAway(true)
		for range 3 { // the last of these looks began behind it
			f.worker.PollAll()
			<-f.mirror.seen
		}
		f.mirror.setAway(false)
		f.worker.PollAll()
	}
	drain := func() {
		for {
			select {
			case <-f.mirror.seen:
			case <-looks:
				return
			}
		}
	}
	f.start()
	drain()
	const text = "rows show less than the journal knows of their jobs, and are left as they are"
	log.await(t, 1, "ERROR", text)
	outage()
	drain()
	tab.insert(journal.Row{Job: rows + 1, Target: "a", Status: journal.RowRunning, Owner: ours + "zzzzz"})
	outage()
	drain()
	found := log.await(t, 2, "ERROR", text)
	if len(found) != 2 || found[0]["rows"] != float64(rows) || found[1]["rows"] != float64(rows+1) ||
		fmt.Sprint(found[0]["some"]) != "[1 2 3 4 5 6 7 8]" || !strings.Contains(fmt.Sprint(found[0]["remedy"]), "jobctl journal reapply") {
		t.Errorf("told %v", found)
	}
	if got := words(f.story(1)); got != "" {
		t.Errorf("story %q", got)
	}
}

// A row with a claim that lives here is no lost one, whichever look meets it.
func TestAClaimThatLivesIsNoLostOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.table.change(func() { f.table.failing["a"] = errAway })
	f.worker.PollAll()
	<-f.table.selected
	<-f.table.selected
	f.table.change(func() { clear(f.table.failing) })
	f.table.insert(waiting(2, "a"))
	f.next().exit(0)
	p.exit(0)
	f.wait("it is done", ended(1))
	f.wait("they are done", func(s *journal.State) bool { return len(s.Jobs) == 0 })
	if got := words(f.story(1)); got != "accepted running started done" {
		t.Errorf("story %q", got)
	}
}

// The table was another one while it was asked whether a claim in doubt was won, be it of this run of the
// worker or of one before: the claim was given up, and its row stayed accepted for ever.
func TestAClaimInDoubtGoesOnWhenItsRowIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := newTable(waiting(1, "a"))
		var away journal.Row
		tab.commit = func(apply func()) error {
			apply()
			away, tab.commit = tab.rows[1], nil
			delete(tab.rows, 1)
			return errors.New("the link is lost")
		}
		m, r, _ := newMemory(t, tab, func(c *jobexec.Config) {
			c.Knows = func(_ context.Context, _ int64, token string) (bool, *journal.Accepted) {
				return true, &journal.Accepted{Target: "a", Token: token, From: journal.RowWaiting}
			}
		})
		synctest.Wait()
		if n := len(m.of(1, journal.KindReleased)); n != 1 {
			t.Fatalf("its claim was given up %d times", n)
		}
		tab.insert(away)
		select {
		case p := <-r.started:
			p.exit(0)
		case <-time.After(time.Hour):
			t.Fatal("it is not looked for")
		}
		synctest.Wait()
		if status := tab.status(1); status != journal.RowDone {
			t.Errorf("the row is %s", status)
		}
	})
}
