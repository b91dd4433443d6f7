package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest"
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
			j, table := openJournal(t), newApplier()
			seq := add(t, j, test.drafts...)
			m := newMirror(j, table)
			run(t, m)
			shown(t, m, seq)
			if got := table.words(); got != test.want {
				t.Errorf("applied %q, want %q", got, test.want)
			}
		})
	}
}

func TestAChangeCarriesTimesAndOutcome(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	events := must.Get(j.Append(accepted(1, "@1"), running(1), done(1)))(t)
	m := newMirror(j, table)
	run(t, m)
	shown(t, m, 3)
	outcome := events[2].Payload.(journal.Done)
	want := store.Change{
		Job: 1, Token: "@1", Accepted: events[0].Time,
		Status: journal.RowDone, Start: events[1].Time, Attempts: 1, Finish: events[2].Time, Done: &outcome,
	}
	got := table.batches[0][0]
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(want)); diff != "" || got.First() != 2 || got.Target() != "a" {
		t.Errorf("change of event %d on for target %q, want 2 and a (-want +got):\n%s", got.First(), got.Target(), diff)
	}
}

func TestTheMirrorGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	seq := add(t, j, accepted(1, "@1"), running(1))
	first := newMirror(j, table)
	run(t, first)
	shown(t, first, seq)
	// A new mirror knows nothing of the claim but what the journal tells.
	seq = add(t, j, done(1))
	second := newMirror(j, table)
	run(t, second)
	shown(t, second, seq)
	if got, want := table.words(), "1 running @1; 1 done @1"; !strings.HasPrefix(got, want) {
		t.Errorf("applied %q, want %q", got, want)
	}
	if j.Position() != seq {
		t.Errorf("position %d, want %d", j.Position(), seq)
	}
}

func TestAnOutageIsWaitedOut(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	table.errs = []error{away("link lost"), away("link lost"), away("refused")}
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
	if why == nil && gone.IsZero() || why != nil && !strings.Contains(why.Error(), "link lost") && !strings.Contains(why.Error(), "refused") {
		t.Errorf("since %v it is away: %v", gone, why)
	}
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
	if got := table.words(); got != "1 running @1" {
		t.Errorf("applied %q", got)
	}
}

// The claim's own transaction has shown it.
func TestAStartAnnouncedByItsClaimIsNotMirrored(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	m := newMirror(j, table)
	claimed := journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1, Claimed: true}}
	run(t, m)
	shown(t, m, add(t, j, accepted(1, "@aaaa00001"), claimed))
	shown(t, m, add(t, j, done(1)))
	if got, want := table.words(), "1 done @aaaa00001"; got != want {
		t.Errorf("applied %q, want %q", got, want)
	}
}

func TestALostRowBecomesAConflict(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	found := journal.Row{Job: 1, Target: "a", Status: journal.RowWaiting}
	table.fate[1] = store.Outcome{Fate: store.Lost, Found: &found}
	table.fate[2] = store.Outcome{Fate: store.Lost}
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
		if diff := cmp.Diff(payload, journal.Payload(got)); diff != "" {
			t.Errorf("conflict (-want +got):\n%s", diff)
		}
	}
	j.View(func(s *journal.State) {
		for id, status := range map[int64]journal.Status{1: journal.StatusNone, 2: journal.StatusNone, 3: journal.StatusStarting} {
			if got := s.Job(id).Status; got != status {
				t.Errorf("job %d is %q, want %q", id, got, status)
			}
		}
	})
}

// Nothing grows while the table is slow: what it is owed is in the journal, and
// what waits meanwhile goes into few transactions.
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

func TestWhatWaitsIsAppliedInBatches(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	table.hold = make(chan struct{})
	m := newMirror(j, table)
	run(t, m)
	const jobs = 2000
	var seq uint64
	for id := range int64(jobs) {
		seq = add(t, j, accepted(id+1, "@1"), running(id+1), done(id+1))
	}
	close(table.hold)
	shown(t, m, seq)
	if n := len(table.batches); n > jobs*3/512+2 {
		t.Errorf("%d transactions for %d jobs", n, jobs)
	}
}

func TestShownIsToldInOrder(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	m := newMirror(j, table)
	early := m.Shown(2, 0)
	late := m.Shown(5, 0)
	run(t, m)
	add(t, j, accepted(1, "@1"), running(1))
	<-early
	select {
	case <-late:
		t.Error("an event that does not exist yet is said to be shown")
	default:
	}
	add(t, j, accepted(2, "@2"), running(2), done(2))
	<-late
	<-m.Shown(3, 0)
}

// A change that is applied again after an unanswered COMMIT may meet its row under the next claim.
func TestARowThatWasClaimedAgainIsNoConflict(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	add(t, j, accepted(1, "@aaaa00001"), running(1), done(1))
	last := add(t, j, accepted(1, "@aaaa00002"))
	row := journal.Row{Job: 1, Target: "a", Status: journal.RowAccepted, Owner: "@aaaa00002"}
	table.fate[1] = store.Outcome{Fate: store.Lost, Found: &row}
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
	table := newApplier()
	table.fate[1] = store.Outcome{Fate: store.Lost}
	m := store.NewMirror(store.Config{Source: j, Bookmark: j, Table: table, Logger: slog.New(slog.DiscardHandler)})
	run(t, m)
	shown(t, m, add(t, j.Log, accepted(1, "@1"), running(1)))
	if conflicts := countConflicts(t, j.Log); conflicts != 1 {
		t.Errorf("%d conflicts are journalled, want 1", conflicts)
	}
	<-j.rested
	shown(t, m, add(t, j.Log, accepted(2, "@2"), running(2)))
	<-j.rested
}

func countConflicts(t *testing.T, j *eventlog.Log) (n int) {
	t.Helper()
	events := must.Get(j.Next(context.Background(), 0, 100))(t)
	for _, e := range events {
		if e.Kind() == journal.KindConflict {
			n++
		}
	}
	return n
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
	j, table := openJournal(t), newApplier()
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
