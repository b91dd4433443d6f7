package eventlog

import (
	"context"
	"testing"
	"time"

	"jobd/journal"
)

// Each commit is told of once, with its events, before anybody knows that it is done.
func TestCommitsAreObserved(t *testing.T) {
	t.Parallel()
	var kinds []journal.Kind
	var bytes int64
	var took time.Duration
	log, err := Open(context.Background(), Config{Dir: t.TempDir(), Committed: func(events []journal.Event, more int64, time time.Duration) {
		for _, e := range events {
			kinds = append(kinds, e.Kind())
		}
		bytes += more
		took += time
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Append(journal.Draft{Payload: journal.Marked{Mark: "aaaa"}}); err != nil {
		t.Fatal(err)
	}
	first := bytes
	if len(kinds) != 1 || kinds[0] != journal.KindMarked || bytes <= 0 || took <= 0 {
		t.Errorf("told of %v, %d bytes, %v", kinds, bytes, took)
	}
	if _, err := log.Append(journal.Draft{Job: 1, Payload: journal.Released{}}); err == nil {
		t.Fatal("a release without a claim was taken")
	}
	if len(kinds) != 1 || bytes != first {
		t.Errorf("told of an append that was refused: %v, %d bytes", kinds, bytes)
	}
}
