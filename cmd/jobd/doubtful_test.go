package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/journaltest"
	"jobd/store/storetest/must"
)

// Of each row the newest event counts that is about its being ignored or set back, unless something
// else is known since.
func TestRowsThatMayNotBeWhatTheJournalSays(t *testing.T) {
	t.Parallel()
	of := journal.Retried{Target: "a", From: "done", To: "waiting"}
	ignored := journal.Ignored{Reason: "not found"}
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	released := journal.Released{Reason: "paused", Token: "@abcdefghi"}
	notIgnored := journal.Conflict{Wanted: journal.RowIgnored, Reason: "the row was manual"}
	notRetried := journal.Conflict{Wanted: journal.WantedRetried, Reason: "the row was done"}
	j := journaltest.OpenTest(t, t.TempDir())
	far := journaltest.MustAppend(t, j, journal.Draft{Job: 100, Payload: ignored}, journal.Draft{Job: 101, Payload: of})
	want := map[int64]journal.Payload{}
	for i, life := range []struct {
		of   []journal.Payload
		want journal.Status
	}{
		{[]journal.Payload{ignored}, journal.StatusIgnored},
		{[]journal.Payload{of}, journal.StatusRetried},
		{[]journal.Payload{ignored, of}, journal.StatusRetried},
		{[]journal.Payload{of, ignored}, journal.StatusIgnored},
		{[]journal.Payload{of, of}, journal.StatusRetried},
		{[]journal.Payload{ignored, accepted}, ""},
		{[]journal.Payload{of, accepted}, ""},
		{[]journal.Payload{accepted, released, of}, journal.StatusRetried},
		{[]journal.Payload{ignored, notIgnored}, ""},
		{[]journal.Payload{ignored, notRetried}, journal.StatusIgnored},
		{[]journal.Payload{of, notRetried}, ""},
		{[]journal.Payload{of, notIgnored}, journal.StatusRetried},
		{[]journal.Payload{ignored, of, notRetried}, ""},
		{[]journal.Payload{of, notRetried, of}, journal.StatusRetried},
		{[]journal.Payload{of, notRetried, ignored}, journal.StatusIgnored},
	} {
		job := int64(i + 1)
		for _, payload := range life.of {
			journaltest.MustAppend(t, j, journal.Draft{Job: job, Payload: payload})
		}
		switch life.want {
		case journal.StatusIgnored:
			want[job] = journal.Ignored{}
		case journal.StatusRetried:
			want[job] = of
		}
	}
	got := must.Get(doubtfulBehind(t.Context(), journaltest.OpenReader(t, j.Dir), far[1].Seq))(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows in doubt (-want +got):\n%s", diff)
	}
}
