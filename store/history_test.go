package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
)

// history is all that was journalled.
func history(t *testing.T, j *eventlog.Log) (all []journal.Event) {
	t.Helper()
	newest := uint64(0)
	j.View(func(s *journal.State) { newest = s.Seq })
	for seq := uint64(0); seq < newest; {
		events, err := j.Next(t.Context(), seq, 0)
		if err != nil {
			t.Fatal(err)
		}
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
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: not after 10 s", what)
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

// reasons are those of the rows that are aside, in order.
func reasons(m *store.Mirror) (list []string) {
	for _, a := range m.Aside() {
		list = append(list, fmt.Sprintf("%d %s: %s", a.Job, a.Wanted, a.Reason))
	}
	slices.Sort(list)
	return list
}
