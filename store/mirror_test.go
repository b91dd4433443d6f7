package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestTransitionsOfAJobCollapseIntoTheLast(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		drafts []journal.Draft
		want   string
	}{
		{"a claim shows by its own transaction", []journal.Draft{accepted(1, "@1")}, ""},
		{
			"a start that its claim has announced: so does it",
			[]journal.Draft{accepted(1, "@1"), {Job: 1, Payload: journal.Running{Attempt: 1, Claimed: true}}},
			"",
		},
		{"running", []journal.Draft{accepted(1, "@1"), running(1)}, "1 running @1"},
		{"to its end", []journal.Draft{accepted(1, "@1"), running(1), done(1)}, "1 done @1"},
		{"given back", []journal.Draft{accepted(1, "@1"), released(1)}, "1 waiting @1"},
		{
			"a manual job given back",
			[]journal.Draft{{Job: 1, Payload: journal.Accepted{Target: "a", Manual: true, Token: "@1"}}, running(1), released(1)},
			"1 manual @1",
		},
		{
			"claimed again: one claim at a time",
			[]journal.Draft{accepted(1, "@1"), released(1), accepted(1, "@2"), running(1), done(1)},
			"1 waiting @1; 1 done @2",
		},
		{
			"jobs side by side",
			[]journal.Draft{accepted(1, "@1"), accepted(2, "@2"), running(1), running(2), done(1)},
			"1 done @1, 2 running @2",
		},
		{
			"what does not show", []journal.Draft{
				accepted(1, "@1"), running(1),
				{Job: 1, Payload: journal.Started{Pid: 1}},
				{Job: 1, Payload: journal.Signal{Signo: 15}},
				{Payload: journal.Paused{}},
			}, "1 running @1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j, table := openJournal(t), storetest.NewMemory("")
			table.Put(1, journal.RowAccepted, "@1")
			table.Put(2, journal.RowAccepted, "@2")
			words := noted(table)
			seq := add(t, j, test.drafts...)
			m := newMirror(j, table)
			run(t, m)
			shown(t, m, seq)
			must.Equal(t, words(), test.want, "applied")
		})
	}
}

func TestAnOutageIsWaitedOut(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	table.Put(1, journal.RowAccepted, "@1")
	table.Away = &store.Unreachable{Op: "apply", Err: errors.New("link lost")}
	returned := make(chan struct{}, 1)
	m := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: table, Logger: slog.New(slog.DiscardHandler),
		OnReturn: func() { returned <- struct{}{} },
	})
	away := m.Away()
	run(t, m)
	seq := add(t, j, accepted(1, "@1"), running(1))
	<-away
	gone, why := m.Reachable()
	if why == nil || gone.IsZero() || !strings.Contains(why.Error(), "link lost") {
		t.Errorf("since %v it is away: %v", gone, why)
	}
	table.Change(func() { table.Away = nil })
	shown(t, m, seq)
	<-returned
	select {
	case <-m.Away():
		t.Error("the table is still said to be away")
	default:
	}
	if back, why := m.Reachable(); why != nil || back.Before(gone) || gone.IsZero() {
		t.Errorf("since %v it is back: %v", back, why)
	}
	must.Equal(t, table.Read(1), "running @1")
}

func TestALostRowBecomesAConflict(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	table.Put(1, journal.RowWaiting, "")
	table.Put(3, journal.RowAccepted, "@3")
	seq := add(t, j, accepted(1, "@1"), accepted(2, "@2"), accepted(3, "@3"), running(1), running(2), running(3))
	m := newMirror(j, table)
	run(t, m)
	shown(t, m, seq)
	events := must.Get(j.Next(t.Context(), seq, 10))(t)
	want := []journal.Payload{
		journal.Conflict{Found: &journal.Row{Target: "a", Status: journal.RowWaiting}, Wanted: journal.RowRunning, Token: "@1"},
		journal.Conflict{Wanted: journal.RowRunning, Token: "@2"},
	}
	for i, payload := range want {
		got := events[i].Payload.(journal.Conflict)
		if got.Found != nil {
			got.Found.Job = 0
		}
		check.Diff(t, payload, journal.Payload(got), "conflict")
	}
	j.View(func(s *journal.State) {
		for id, status := range map[int64]journal.Status{1: journal.StatusNone, 2: journal.StatusNone, 3: journal.StatusStarting} {
			if got := s.Job(id).Status; got != status {
				t.Errorf("job %d is %q, want %q", id, got, status)
			}
		}
	})
}

// A mirror that was cut off goes over its last steps again, and meets a row that was set back since:
// that is no conflict.
func TestARowThatWasSetBackIsNoConflict(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	retried := journal.Retried{Target: "a", From: journal.RowDone, To: journal.RowWaiting, Result: "ok", Finished: 1, By: "me"}
	newest := add(t, j, accepted(1, "@aaaa00001"), running(1), done(1), accepted(2, "@aaaa00002"), running(2), done(2),
		journal.Draft{Job: 1, Payload: retried})
	table.Put(1, journal.RowWaiting, "")
	table.Put(2, journal.RowWaiting, "") // by hand
	m := newMirror(j, table)
	run(t, m)
	shown(t, m, newest)
	conflicts := of[journal.Conflict](t, j)
	if len(conflicts) != 1 || conflicts[0].Token != "@aaaa00002" || table.Read(1) != "waiting " {
		t.Errorf("conflicts %+v, row %q; want one, of the other job", conflicts, table.Read(1))
	}
}

// Nothing grows while the table is slow: what it is owed is in the journal, and
// what waits meanwhile goes into few transactions.
func TestWhatWaitsIsAppliedInBatches(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	m := newMirror(j, table)
	run(t, m)
	const jobs = 2000
	var seq uint64
	for id := range int64(jobs) {
		table.Put(id+1, journal.RowAccepted, "@1")
	}
	table.Change(func() { // no call is answered meanwhile
		for id := range int64(jobs) {
			seq = add(t, j, accepted(id+1, "@1"), running(id+1), done(id+1))
		}
	})
	shown(t, m, seq)
	if table.Applies > jobs*3/512+2 {
		t.Errorf("%d transactions for %d jobs", table.Applies, jobs)
	}
}

// A change that is applied again after an unanswered COMMIT may meet its row under the next claim.
func TestARowThatWasClaimedAgainIsNoConflict(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	add(t, j, accepted(1, "@aaaa00001"), running(1), done(1))
	last := add(t, j, accepted(1, "@aaaa00002"))
	table.Put(1, journal.RowAccepted, "@aaaa00002")
	m := newMirror(j, table)
	run(t, m)
	shown(t, m, last)
	j.View(func(s *journal.State) {
		if got := s.Job(1); s.Seq != last || got.Status != journal.StatusAccepted || got.Token != "@aaaa00002" {
			t.Errorf("after event %d the job is %+v, want the second claim untouched", s.Seq, got)
		}
	})
}

// fullJournal is a journal on a disk that is full a few times.
type fullJournal struct {
	*eventlog.Log
	appends, rests atomic.Int64 // how many of each still fail
	rested         chan struct{}
}

func (j *fullJournal) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	if j.appends.Add(-1) >= 0 {
		return nil, fmt.Errorf("append: %w", journal.ErrFull)
	}
	return j.Log.Append(drafts...)
}

func (j *fullJournal) Rest() error {
	defer func() { j.rested <- struct{}{} }()
	if j.rests.Add(-1) >= 0 {
		return fmt.Errorf("rest: %w", journal.ErrFull)
	}
	return j.Log.Rest()
}

// A full disk ended the mirror, and with it the worker: when it wanted to write its position at
// rest, and when it had a conflict to journal. It goes on, and the conflict is journalled when
// there is room.
func TestAFullDiskDoesNotEndTheMirror(t *testing.T) {
	t.Parallel()
	j := &fullJournal{Log: openJournal(t), rested: make(chan struct{}, 10)}
	j.appends.Store(2)
	j.rests.Store(1)
	table := storetest.NewMemory("")
	table.Put(2, journal.RowAccepted, "@2") // and no row 1
	m := mirrorOf(j, j, table)
	run(t, m)
	shown(t, m, add(t, j.Log, accepted(1, "@1"), running(1)))
	must.Equal(t, len(of[journal.Conflict](t, j.Log)), 1, "conflicts")
	<-j.rested
	shown(t, m, add(t, j.Log, accepted(2, "@2"), running(2)))
	<-j.rested
}

// Beyond the bounds the mirror reads no further, and drops nothing; it goes on when there is room
// again.
func TestTheMirrorReadsNoFurtherWhenTooMuchIsQuarantined(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	m := newMirror(j, table)
	const jobs, size = 100, 1 << 20
	output := journal.Output{Kept: make([]byte, size), Size: size}
	var newest uint64
	for id := range int64(jobs) {
		table.Put(id+1, journal.RowAccepted, token(id+1))
		table.Locked[id+1] = true
		newest = add(t, j, accepted(id+1, token(id+1)), running(id+1),
			journal.Draft{Job: id + 1, Payload: journal.Done{Result: "ok", Stdout: output}})
	}
	run(t, m)
	await(t, "the first 60", m.Tried(60*3))
	for len(m.Quarantined()) < 64 {
		await(t, "one more", m.Tried(uint64(len(m.Quarantined())+1)*3))
	}
	tries := make(chan struct{}, 1000)
	table.Change(func() {
		table.OnApply = func() {
			select {
			case tries <- struct{}{}:
			default:
			}
		}
	})
	for range 100 { // new events would have been tried among these
		await(t, "another try", tries)
	}
	if n := len(m.Quarantined()); n > 66 || !open(m.Tried(newest)) {
		t.Errorf("%d changes of a MiB each are aside", n)
	}
	table.Change(func() { clear(table.Locked) })
	await(t, "all, once there is room", m.Shown(newest, 0))
	for id := range int64(jobs) {
		if got := table.Read(id + 1); got != "done " {
			t.Fatalf("row %d is %q", id+1, got)
		}
	}
}

// Thousands of clients wait for a job each.
func TestThousandsWaitCheaply(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("")
	m := newMirror(j, table)
	const clients = 20_000
	var waiting []<-chan struct{}
	for i := range clients {
		waiting = append(waiting, m.Shown(uint64(2*(i%100)+2), int64(i%100+1)))
	}
	run(t, m)
	for id := range int64(100) {
		add(t, j, accepted(id+1, "@1"), running(id+1))
	}
	for _, shown := range waiting {
		await(t, "a client", shown)
	}
}

// Regression: a mirror that goes over its last steps again, after a crash, found the running of a claim that
// was given up since, and the row with another worker's claim: it told of a conflict. What ended a claim is
// owed to the row, too, and tells whether somebody has changed it.
func TestARunningWhoseClaimIsOverIsNoConflict(t *testing.T) {
	t.Parallel()
	const ours, others = "@aaaa00001", "@bbbb00001"
	for name, test := range map[string]struct {
		over  *journal.Draft // nil: the claim is under way
		found string         // status of the row, which is another worker's; "": it is gone
		wants []string       // what the conflicts tell that the row should have become
	}{
		"given back, and claimed":  {over: new(released(1)), found: journal.RowAccepted},
		"given back, and running":  {over: new(released(1)), found: journal.RowRunning},
		"given back, and gone":     {over: new(released(1))},
		"ended, and taken":         {over: new(done(1)), found: journal.RowAccepted, wants: []string{journal.RowDone}},
		"ended, and gone":          {over: new(done(1)), wants: []string{journal.RowDone}},
		"under way, and taken":     {found: journal.RowAccepted, wants: []string{journal.RowRunning}},
		"under way, and runs":      {found: journal.RowRunning, wants: []string{journal.RowRunning}},
		"under way, and gone":      {wants: []string{journal.RowRunning}},
		"under way, and waits now": {found: journal.RowWaiting, wants: []string{journal.RowRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, table := openJournal(t), storetest.NewMemory("")
			if test.found != "" {
				table.Put(1, test.found, others)
			}
			last := add(t, j, accepted(1, ours), running(1))
			if test.over != nil {
				last = add(t, j, *test.over)
			}
			m := mirrorOf(oneByOne{j}, j, table)
			run(t, m)
			shown(t, m, last)
			var wants []string
			for _, conflict := range of[journal.Conflict](t, j) {
				wants = append(wants, conflict.Wanted)
			}
			check.Equal(t, fmt.Sprint(wants), fmt.Sprint(test.wants), "conflicts about a row that should be")
		})
	}
}

// oneByOne is a journal of which each event is a batch of its own.
type oneByOne struct{ *eventlog.Log }

func (j oneByOne) Next(ctx context.Context, after uint64, _ int) ([]journal.Event, error) {
	return j.Log.Next(ctx, after, 1)
}
