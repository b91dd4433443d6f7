package verify_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/journaltest"
	"jobd/journal/replay"
)

// endReadings are all readings that depend on where the journal ends.
func endReadings(ctx context.Context, r *replay.Reader) map[string]error {
	last := func(f journal.Filter) (err error) {
		for _, err = range r.Events(ctx, f) {
		}
		return err
	}
	readings := map[string]error{
		"events":       last(journal.Filter{}),
		"job":          last(journal.Filter{Job: 3}),
		"absent job":   last(journal.Filter{Job: 99}),
		"last":         last(journal.Filter{Last: 2}),
		"last of job":  last(journal.Filter{Job: 2, Last: 1}),
		"until":        last(journal.Filter{Until: time.Now().Add(24 * time.Hour)}),
		"job until":    last(journal.Filter{Job: 3, Until: time.Now().Add(24 * time.Hour)}),
		"kinds":        last(journal.Filter{Kinds: []journal.Kind{journal.KindDone}}),
		"last, target": last(journal.Filter{Target: "t", Last: 1}),
	}
	_, readings["anchor"] = r.Anchor(ctx)
	_, readings["newest"] = r.Newest(ctx)
	_, readings["state"] = r.State(ctx, time.Time{})
	_, readings["state at"] = r.State(ctx, time.Now().Add(24*time.Hour))
	for _, err := range r.Jobs(ctx, time.Time{}) {
		readings["jobs"] = err
	}
	_, readings["verify"] = journaltest.VerifyAll(ctx, r)
	return readings
}

func checkEndReadings(t *testing.T, dir, detail string) {
	t.Helper()
	for name, err := range endReadings(t.Context(), journaltest.OpenReader(t, dir)) {
		var damage *journal.DamagedError
		if detail == "" && err != nil || detail != "" && (!errors.As(err, &damage) || damage.Detail != detail) {
			t.Errorf("%s: %v, want %q", name, err, detail)
		}
	}
}

// Whatever depends on the end of a journal that was cut off says so: readers once gave a job's
// story without its end, and an anchor that would have vouched for the cut.
func TestEveryReadingMeetsACutEnd(t *testing.T) {
	t.Parallel()
	dir := journaltest.ClosedJournal(t, 3)
	checkEndReadings(t, dir, "")
	tamper(`DELETE FROM records WHERE seq > 9`)(t, dir)
	checkEndReadings(t, dir, "events up to 12 were acknowledged, the journal ends at 9")
}

// A head file is made before the first event, so that a live journal without one is damaged.
func TestEveryReadingMeetsAMissingHead(t *testing.T) {
	t.Parallel()
	dir := journaltest.ClosedJournal(t, 3)
	remove("head")(t, dir)
	checkEndReadings(t, dir, archive.DetailNoHead)
}

// Where sealed segments are all there is, the files that a worker keeps tell a journal that lost
// its newest segment from an archive.
func TestEveryReadingMeetsAMissingNewestSegment(t *testing.T) {
	t.Parallel()
	dir := journaltest.Large(t)
	parts, err := archive.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, p := range parts {
		if !p.Sealed {
			remove(filepath.Base(p.Path))(t, dir)
		} else {
			files++
		}
	}
	if files == 0 {
		t.Fatal("nothing is sealed")
	}
	for _, name := range []string{"head", archive.LockFile, archive.ClockFile, archive.WaypointFile} {
		if err := archive.RemoveIfThere(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	checkEndReadings(t, dir, "")
	for _, name := range []string{archive.LockFile, archive.ClockFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		checkEndReadings(t, dir, archive.DetailAllSealed)
		remove(name)(t, dir)
	}
}
