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

// A full disk ended the mirror, and with it the worker: when it wanted to write its position at rest, and when it
// had a conflict to journal. It goes on, and the conflict is journalled when there is room.
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
	events, err := j.Next(context.Background(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind() == journal.KindConflict {
			n++
		}
	}
	return n
}
