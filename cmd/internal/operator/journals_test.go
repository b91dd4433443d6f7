package operator

import (
	"slices"
	"testing"

	"jobd/cmd/internal/history"
	"jobd/journal"
	"jobd/journal/journaltest"
)

// What looks at the newest events only says how far back it has looked, and goes on from there.
func TestLooksBackSoFar(t *testing.T) {
	t.Parallel()
	log := journaltest.OpenTest(t, t.TempDir())
	var all []journal.Event
	for job := range int64(10) {
		all = append(all, journaltest.MustAppend(t, log, journaltest.WholeLife(job+1)...)...)
	}
	done := slices.DeleteFunc(slices.Clone(all), func(e journal.Event) bool { return e.Kind() != journal.KindDone })
	query := history.Query{Kinds: []journal.Kind{journal.KindDone}, Last: 100}
	var found []uint64
	for range 3 {
		j := &Journals{Sources: []Source{Folder{Reader: journaltest.OpenReader(t, log.Dir)}}, Look: uint64(len(all) / 2)}
		for e, err := range j.Events(t.Context(), query) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, e.Item.Seq)
		}
		if j.LookedBack.IsZero() {
			break
		}
		if len(found) != len(done)/2 || !slices.ContainsFunc(all, func(e journal.Event) bool { return e.Time.Equal(j.LookedBack) }) {
			t.Errorf("found %d of %d, looked back to %v", found, len(done), j.LookedBack)
		}
		query.Until = j.LookedBack
	}
	if slices.Sort(found); len(found) != len(done) {
		t.Errorf("found %d, not all of %d", found, len(done))
	}
	since := &Journals{Sources: []Source{Folder{Reader: journaltest.OpenReader(t, log.Dir)}}, Look: 5}
	query.Since = all[len(all)-2].Time
	query.Until = all[len(all)-1].Time.Add(1)
	for _, err := range since.Events(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !since.LookedBack.IsZero() {
		t.Errorf("since leaves out more, and it was told to have looked back to %v", since.LookedBack)
	}
}
