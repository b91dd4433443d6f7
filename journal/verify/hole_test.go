package verify_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/verify"
	"jobd/store/storetest/must"
)

// rejoined is a journal of six segments of 25 events, of which retention has archived four, in one
// folder with its archive.
func rejoined(t *testing.T) (dir string, all []journal.Event) {
	t.Helper()
	archive := t.TempDir()
	j := journaltest.Rolled(t, 6, 5)
	j.Reopen(t, func(c *eventlog.Config) { c.Retention, c.ArchiveDir = time.Nanosecond, archive })
	journaltest.MustMaintain(t, j)
	j.SetPosition(100)
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	dir = journaltest.CopyFolder(t, j.Dir)
	must.Do(t, os.CopyFS(dir, os.DirFS(archive)))
	all = journaltest.Events(t, journaltest.OpenReader(t, dir), journal.Filter{Output: true})
	if len(all) != 151 || all[150].Kind() != journal.KindRetention {
		t.Fatalf("%d events", len(all))
	}
	return dir, all
}

// verdicts is the ranges in short.
func verdicts(a *verify.Audited) (short []string) {
	for _, r := range a.Ranges {
		short = append(short, fmt.Sprintf("%d-%d %s", r.First, r.Last, r.Verdict))
	}
	return short
}

func audit(t *testing.T, dir string, anchors ...journal.Anchor) (*verify.Audited, error) {
	t.Helper()
	audited, err := verify.Audit(t.Context(), journaltest.OpenReader(t, dir).Folder(), anchors, nil)
	return audited, err
}

func wantVerdicts(t *testing.T, a *verify.Audited, err error, says string, want ...string) {
	t.Helper()
	var d *journal.DamagedError
	if says == "" && err != nil || says != "" && (!errors.As(err, &d) || !strings.Contains(err.Error(), says)) {
		t.Errorf("%v; want: …%s", err, says)
	}
	if diff := cmp.Diff(want, verdicts(a)); diff != "" {
		t.Errorf("%s\n%+v", diff, a.Faults)
	}
}

func anchorOf(e journal.Event) journal.Anchor { return journal.Anchor{Seq: e.Seq, Hash: e.Hash} }

// A segment that is taken out of the middle is a hole, whatever was removed by retention before.
func TestAHoleIsFound(t *testing.T) {
	t.Parallel()
	whole, all := rejoined(t)
	a, err := audit(t, whole, anchorOf(all[150]))
	wantVerdicts(t, a, err, "", "1-151 proven")
	dir := journaltest.CopyFolder(t, whole)
	remove("segment-00000003.zst")(t, dir)
	a, err = audit(t, dir)
	wantVerdicts(t, a, err, "at event 51: segment 3 is missing", "1-50 consistent", "51-75 missing", "76-151 consistent")
	a, err = audit(t, dir, anchorOf(all[59]), anchorOf(all[149]))
	wantVerdicts(t, a, err, "segment 3 is missing", "1-50 consistent", "51-75 missing", "76-150 proven", "151-151 consistent")
	readsUpTo(t, dir, 50)

	dir = journaltest.CopyFolder(t, whole)
	for n := range 4 {
		remove(fmt.Sprintf("segment-0000000%d.zst", n+1))(t, dir)
	}
	a, err = audit(t, dir, anchorOf(all[59]), anchorOf(all[150]))
	wantVerdicts(t, a, err, "", "1-100 removed", "101-151 proven")
	if a.Unanswered != 1 {
		t.Errorf("unanswered: %d", a.Unanswered)
	}
	remove("segment-00000005.zst")(t, dir)
	a, err = audit(t, dir)
	wantVerdicts(t, a, err, "no event says that retention removed those from 5 on", "1-100 removed", "101-125 missing", "126-151 consistent")
	if got := journaltest.Events(t, journaltest.OpenReader(t, dir), journal.Filter{Last: 2}); len(got) != 2 {
		t.Errorf("the newest events: %v", got)
	}
}

// readsUpTo checks that every way of reading gives what is sound, up to an event, and then fails.
func readsUpTo(t *testing.T, dir string, last uint64) {
	t.Helper()
	r := journaltest.OpenReader(t, dir)
	var got uint64
	var err error
	for e, readErr := range r.Events(t.Context(), journal.Filter{}) {
		if err = readErr; err == nil {
			got = e.Seq
		}
	}
	var d *journal.DamagedError
	if got != last || !errors.As(err, &d) {
		t.Errorf("log reads up to %d, not %d: %v", got, last, err)
	}
	if _, err := journaltest.StateAt(t.Context(), r, time.Time{}); !errors.As(err, &d) {
		t.Errorf("state: %v", err)
	}
	err = nil
	for _, err = range r.Jobs(t.Context(), time.Time{}) {
	}
	if !errors.As(err, &d) {
		t.Errorf("jobs: %v", err)
	}
}

// The note in the database is no witness: with it edited and the oldest segments removed, they are
// missing.
func TestAnEditedNoteHidesNoHole(t *testing.T) {
	t.Parallel()
	j := journaltest.Rolled(t, 4, 5)
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	dir := j.Dir
	db := archive.OpenForWriting(archive.DatabasePath(dir, 4))
	must.Get(db.Exec(`UPDATE mirror SET kept = 3`))(t)
	must.Do(t, db.Close())
	remove("segment-00000001.zst")(t, dir)
	remove("segment-00000002.zst")(t, dir)
	a, err := audit(t, dir)
	wantVerdicts(t, a, err, "the history begins with segment 3, and no event says", "1-50 missing", "51-100 consistent")
}

// old makes a journal as older versions did, which did not journal what they removed, with two of
// its four segments gone.
func old(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	h, err := archive.NewHeader(1, &journal.State{})
	must.Do(t, errors.Join(err, archive.Make(t.Context(), dir, h, 0)))
	j := journaltest.OpenWith(t, eventlog.Config{Dir: dir, Now: journaltest.Ticking()})
	for s := range 4 {
		if s > 0 {
			journaltest.Roll(t, j)
		}
		for n := range 5 {
			journaltest.MustAppend(t, j, journaltest.WholeLife(int64(s*5+n+1))...)
		}
	}
	j.SetPosition(80)
	journaltest.MustClose(t, j)
	parts, err := archive.List(dir) // Maintain would journal that nothing was removed so far
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts[:3] {
		h, records := readPart(t, p)
		seal(t, archive.SealedPath(dir, p.Number), h, records)
		must.Do(t, archive.RemoveDatabase(p.Path))
	}
	must.Do(t, errors.Join(os.Remove(archive.SealedPath(dir, 1)), os.Remove(archive.SealedPath(dir, 2))))
	return dir
}

// A journal that older versions have shortened is neither damaged nor silently taken, and from the
// next start on it is like any other.
func TestAJournalThatOlderVersionsShortened(t *testing.T) {
	t.Parallel()
	dir := old(t)
	a, err := audit(t, dir)
	wantVerdicts(t, a, err, "", "1-40 removed", "41-80 consistent")
	if a.Unproven != 40 || a.Ranges[0].Detail != "before removals were journalled: nothing here says so" {
		t.Errorf("%+v", a)
	}
	if n := len(journaltest.Events(t, journaltest.OpenReader(t, dir), journal.Filter{})); n != 40 {
		t.Errorf("%d events", n)
	}
	j := journaltest.OpenWith(t, eventlog.Config{Dir: dir, Now: journaltest.Ticking()})
	journaltest.MustMaintain(t, j)
	journaltest.MustMaintain(t, j) // once is enough
	for range 5 {                  // its clock was set back by three days
		journaltest.Roll(t, j)
	}
	journaltest.MustAppend(t, j, journaltest.WholeLife(100)...)
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	a, err = audit(t, dir)
	wantVerdicts(t, a, err, "", "1-40 removed", "41-85 consistent")
	if a.Unproven != 40 || !strings.Contains(a.Ranges[0].Detail, "segments up to 2 before that was journalled") {
		t.Errorf("%+v", a)
	}
	remove("segment-00000003.zst")(t, dir)
	a, err = audit(t, dir)
	wantVerdicts(t, a, err, "no event says", "1-40 removed", "41-60 missing", "61-85 consistent")
}

// What retention says of itself must be true of what is still here.
func TestARetentionEventThatLies(t *testing.T) {
	t.Parallel()
	j := journaltest.Rolled(t, 3, 5)
	journaltest.MustAppend(t, j, journal.Draft{Payload: journal.Retention{First: 1, Last: 1, Seq: 25, Hash: journal.Hash{1}.String(), Reason: "none"}})
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	a, err := audit(t, j.Dir)
	wantVerdicts(t, a, err, "at event 76: it says that segment 1 ended with event 25", "1-75 consistent", "76-76 damaged")
}
