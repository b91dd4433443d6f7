package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openJournal(t *testing.T) *eventlog.Log {
	t.Helper()
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: t.TempDir()}))(t)
	t.Cleanup(func() {
		check.Do(t, j.Close())
	})
	return j
}

// add appends one event after the other and gives the newest number.
func add(t *testing.T, j *eventlog.Log, drafts ...journal.Draft) uint64 {
	t.Helper()
	events := must.Get(j.Append(drafts...))(t)
	return events[len(events)-1].Seq
}

func accepted(id int64, token string) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Accepted{Target: "a", Token: token}}
}

func running(id int64) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Running{Attempt: 1}}
}

func done(id int64) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Done{Result: "ok"}}
}

func released(id int64) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Released{Reason: "test"}}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newMirror(j *eventlog.Log, table store.Applier) *store.Mirror { return mirrorOf(j, j, table) }

// mirrorOf is a mirror of a journal that a test has a hand in.
func mirrorOf(source store.Source, bookmark store.Bookmark, table store.Applier, also ...func(*store.Config)) *store.Mirror {
	c := store.Config{Source: source, Bookmark: bookmark, Table: table, Logger: discard()}
	for _, set := range also {
		set(&c)
	}
	return store.NewMirror(c)
}

// noted has a table note what it is given, in words: "job status token" a change, ";" between batches.
func noted(table *storetest.Memory) (words func() string) {
	var batches []string
	table.OnApply = func() { batches = append(batches, "") }
	table.OnChange = func(c store.Change) {
		last := &batches[len(batches)-1]
		*last = strings.TrimPrefix(fmt.Sprintf("%s, %d %s %s", *last, c.Job, c.Status, c.Token), ", ")
	}
	return func() (text string) {
		table.Change(func() { text = strings.Join(batches, "; ") })
		return text
	}
}

// hung is how long a wait may take: it ends a test that hangs, and is far more than any takes.
const hung = 2 * time.Minute

// run runs the mirror until the test ends.
func run(t *testing.T, m *store.Mirror) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// shown waits until the mirror is done with an event.
func shown(t *testing.T, m *store.Mirror, seq uint64) {
	t.Helper()
	select {
	case <-m.Shown(seq, 0):
	case <-time.After(hung):
		t.Fatalf("event %d is not in the table after %s", seq, hung)
	}
}

// history is all that was journalled.
func history(t *testing.T, j *eventlog.Log) (all []journal.Event) {
	t.Helper()
	newest := uint64(0)
	j.View(func(s *journal.State) { newest = s.Seq })
	for seq := uint64(0); seq < newest; {
		events := must.Get(j.Next(t.Context(), seq, 0))(t)
		all = append(all, events...)
		seq = events[len(events)-1].Seq
	}
	return all
}

// of gives the payloads of one kind.
func of[P journal.Payload](t *testing.T, j *eventlog.Log) (list []P) {
	t.Helper()
	for _, e := range history(t, j) {
		if p, ok := e.Payload.(P); ok {
			list = append(list, p)
		}
	}
	return list
}

// await waits for a channel.
func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(hung):
		t.Fatalf("%s: not after %s", what, hung)
	}
}

// open tells whether a channel is not closed yet.
func open(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// reasons are those of the quarantined rows, in order.
func reasons(m *store.Mirror) (list []string) {
	for _, a := range m.Quarantined() {
		list = append(list, fmt.Sprintf("%d %s: %s", a.Job, a.Wanted, a.Reason))
	}
	slices.Sort(list)
	return list
}

// token is that of a job's claim.
func token(id int64) string { return fmt.Sprintf("@aaaa%05d", id) }
