package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// One row locked by somebody's SELECT … FOR UPDATE failed whole batches, the table counted as away
// and all claims stopped. The row is quarantined, told once, and taken up when it is free; all others
// go on, and later changes of the row come in order.
func TestALockedRowHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	for id := range int64(10) {
		table.Put(id+1, journal.RowAccepted, token(id+1))
	}
	table.Locked[3] = true
	m := newMirror(j, table)
	away := m.Away()
	run(t, m)
	var started uint64
	for id := range int64(10) {
		started = add(t, j, accepted(id+1, token(id+1)), running(id+1))
	}
	await(t, "others of the same batch", m.Tried(started))
	await(t, "another job", m.Shown(started, 4))
	newest := add(t, j, done(3), done(4))
	await(t, "the next batch", m.Tried(newest))
	if got := table.Read(4); got != "done " {
		t.Errorf("row 4 is %q, want done", got)
	}
	mine, all := m.Shown(newest, 3), m.Shown(newest, 0)
	if !open(mine) || !open(all) || !open(m.Shown(started, 3)) {
		t.Error("a row that is locked is said to be shown")
	}
	if want := []string{"3 done: somebody else holds a lock on the row"}; !slices.Equal(reasons(m), want) {
		t.Errorf("aside: %q, want %q", reasons(m), want)
	}
	if j.Position() >= 6 { // the oldest event that row 3 does not show
		t.Errorf("the bookmark is at %d, behind an event that is not shown", j.Position())
	}
	table.Change(func() { delete(table.Locked, 3) })
	await(t, "the row, once it is free", mine)
	await(t, "all rows", all)
	if got := table.Read(3); got != "done " || len(m.Quarantined()) != 0 || !open(away) {
		t.Errorf("row 3 is %q, %d rows are aside, away: %t", got, len(m.Quarantined()), !open(away))
	}
	if got := of[journal.SetAside](t, j); len(got) != 1 || got[0].Token != token(3) || got[0].Wanted != journal.RowRunning {
		t.Errorf("journalled %+v, want one event of row 3", got)
	}
	if j.Position() < newest {
		t.Errorf("the bookmark stays at %d of %d", j.Position(), newest)
	}
}

// A later claim's change waits behind that of an earlier one, and is never applied before it.
func TestALaterClaimWaitsBehindAnEarlierOne(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	table.Put(1, journal.RowAccepted, "@1")
	table.Locked[1] = true
	words := noted(table)
	m := newMirror(j, table)
	run(t, m)
	await(t, "the first claim's change", m.Tried(add(t, j, accepted(1, "@1"), running(1), released(1))))
	newest := add(t, j, accepted(1, "@2"), running(1), done(1))
	await(t, "the second claim's change", m.Tried(newest))
	if !open(m.Shown(3, 1)) {
		t.Error("the first claim's change is said to be shown")
	}
	table.Change(func() {
		clear(table.Locked)
		claimed := table.OnChange
		table.OnChange = func(c store.Change) { // the first claim's is made by then
			if claimed(c); c.Token == "@2" {
				table.Rows[1].Status, table.Rows[1].Owner = journal.RowAccepted, "@2"
			}
		}
	})
	await(t, "all", m.Shown(newest, 0))
	if text := words(); !strings.HasSuffix(text, "1 waiting @1; 1 done @2") {
		t.Errorf("applied %q", text)
	}
	must.Equal(t, table.Read(1), "done ")
}

// A crash while a row is quarantined: the bookmark has not passed it, so the next mirror quarantines
// it again and ends it. What the others' rows show already is applied again, which their guards make
// harmless.
func TestARowThatWasQuarantinedIsTakenUpAfterACrash(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	table.Put(1, journal.RowAccepted, token(1))
	table.Put(2, journal.RowAccepted, token(2))
	table.Locked[1] = true
	ctx, kill := context.WithCancel(t.Context())
	first := newMirror(j, table)
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	newest := add(t, j, accepted(1, token(1)), running(1), done(1), accepted(2, token(2)), running(2), done(2))
	await(t, "the first mirror", first.Tried(newest))
	kill()
	must.Do(t, <-ended)
	second := newMirror(j, table)
	run(t, second)
	await(t, "the second mirror", second.Tried(newest))
	if got := second.Quarantined(); len(got) != 1 || got[0].Job != 1 {
		t.Fatalf("aside: %+v, want job 1", got)
	}
	table.Change(func() { clear(table.Locked) })
	await(t, "the row", second.Shown(newest, 0))
	if one, two := table.Read(1), table.Read(2); one != "done " || two != "done " {
		t.Errorf("rows are %q and %q, want both done", one, two)
	}
	if n := len(of[journal.Conflict](t, j)); n != 0 {
		t.Errorf("%d conflicts", n)
	}
}

// Retention waits for the mirror: a row that the table refuses for a day becomes a conflict, with
// the reason and the row as found. A row that is only locked never does.
func TestARowRefusedForADayIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: t.TempDir()}))(t)
		defer j.Close()
		table := storetest.NewMemory("")
		table.Put(1, journal.RowAccepted, token(1))
		table.Put(2, journal.RowAccepted, token(2))
		table.Refused[1], table.Locked[2] = true, true
		m := newMirror(j, table)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		newest := add(t, j, accepted(1, token(1)), running(1), accepted(2, token(2)), running(2))
		time.Sleep(23 * time.Hour)
		if n := len(of[journal.Conflict](t, j)); n != 0 || len(m.Quarantined()) != 2 {
			t.Errorf("after 23 h: %d conflicts, %d rows aside; want 0 and 2", n, len(m.Quarantined()))
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		want := []journal.Conflict{{
			Found: &journal.Row{Target: "a", Status: journal.RowAccepted, Owner: token(1)}, Wanted: journal.RowRunning,
			Reason: "CHECK constraint fails", Token: token(1),
		}}
		check.Diff(t, want, stripped(of[journal.Conflict](t, j)), "after 25 h, conflicts")
		if open(m.Shown(newest, 1)) || !open(m.Shown(newest, 2)) {
			t.Error("the refused row is still waited for, or the locked one is not")
		}
		table.Change(func() { clear(table.Locked) })
		<-m.Shown(newest, 0)
		cancel()
		check.Do(t, <-ended)
	})
}

// stripped leaves out what JSON leaves out.
func stripped(list []journal.Conflict) []journal.Conflict {
	for i, c := range list {
		if c.Found != nil {
			row := *c.Found
			row.Job = 0
			list[i].Found = &row
		}
	}
	return list
}

// Rows that a stopping worker gave back were not told to anybody: an idle worker of the same target
// never looked.
func TestRowsGivenBackAreTold(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	for id := range int64(4) {
		table.Put(id+1, journal.RowAccepted, token(id+1))
	}
	told := make(chan []string, 10)
	m := newMirror(j, table)
	m.OnGivenBack = func(targets []string) { told <- targets }
	run(t, m)
	back := func(id int64, target string, manual bool) journal.Draft {
		return journal.Draft{Job: id, Payload: journal.Released{Reason: "stop", Target: target, Manual: manual, Token: token(id)}}
	}
	claim := func(id int64, target string, manual bool) journal.Draft {
		return journal.Draft{Job: id, Payload: journal.Accepted{Target: target, Manual: manual, Token: token(id)}}
	}
	newest := add(t, j, claim(1, "b", false), claim(2, "a", false), claim(3, "m", true), claim(4, "b", false),
		back(1, "b", false), back(2, "a", false), back(3, "m", true), back(4, "b", false))
	await(t, "the rows", m.Shown(newest, 0))
	select { // it was told before anybody who waits for the rows
	case got := <-told:
		if want := []string{"a", "b"}; !slices.Equal(got, want) {
			t.Errorf("told of %q, want %q", got, want)
		}
	default:
		t.Error("nobody was told")
	}
	if got := table.Read(3); got != "manual " {
		t.Errorf("row 3 is %q, want manual", got)
	}
}

// Each cause is logged once, as loud as it is bad. That a server is compared with the journal first
// is for the mirror to say: after each restart of a server a claim warned of it, too.
func TestRetryReportsEachCauseOnce(t *testing.T) {
	t.Parallel()
	gone := errors.New("no route to host")
	cases := []struct {
		name  string
		cause error
		level string
	}{
		{"a server that is gone", &store.Unreachable{Op: "connect", Err: gone}, "WARN"},
		{"a table that can't be used", &store.Unusable{Op: "check", Err: gone}, "ERROR"},
		{"a server that is not compared yet", fmt.Errorf("claim: %w", &store.AnotherServer{Reached: "two"}), "DEBUG"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				retry := store.NewRetry(logger, "claim jobs", "target", "mail")
				for range 3 {
					must.Do(t, retry.Wait(t.Context(), c.cause))
				}
				if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level="+c.level) || !strings.Contains(text, " target=mail ") {
					t.Errorf("logged %q, want one line of level %s", text, c.level)
				}
			})
		})
	}
}

// The end of an outage is told with its length, once, and as a warning where the outage was one; an
// outage whose causes tell a figure that changes does not fill the log.
func TestRetryReportsTheEndOfAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		retry := store.NewRetry(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), "claim jobs")
		retry.Over()
		if log.Len() > 0 {
			t.Errorf("logged %q before anything was wrong", log.String())
		}
		began := time.Now()
		for i := range 30 {
			must.Do(t, retry.Wait(t.Context(), fmt.Errorf("%d MiB are free", i)))
		}
		took := time.Since(began).Round(time.Millisecond)
		retry.Over()
		retry.Over()
		text := log.String()
		if strings.Count(text, "trying again") != 10 || strings.Count(text, "\n") != 11 {
			t.Errorf("logged %q, want ten causes and one end", text)
		}
		if want := fmt.Sprintf(`level=WARN msg="claim jobs succeeds again" after=%v`+"\n", took); !strings.HasSuffix(text, want) {
			t.Errorf("logged %q, want at its end %q", text, want)
		}
		log.Reset()
		if err := retry.Wait(t.Context(), errors.New("0 MiB are free")); err != nil || log.Len() == 0 {
			t.Errorf("the next outage: %v, logged %q", err, log.String())
		}
	})
}

// Only where no server is known yet is it nothing but the start's own way.
func TestAClaimBeforeTheFirstServerIsNothingWrong(t *testing.T) {
	t.Parallel()
	for confirmed, passing := range map[string]bool{"": true, "one": false} {
		err := fmt.Errorf("claim waiting jobs: %w", &store.AnotherServer{Reached: "two", Confirmed: confirmed})
		var known interface{ Passing() bool }
		if !errors.As(err, &known) || known.Passing() != passing {
			t.Errorf("%v: passing is not %v", err, passing)
		}
	}
}
