package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest"
	"jobd/store/storetest/must"
)

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
