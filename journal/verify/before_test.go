package verify_test

import (
	"path/filepath"
	"testing"
	"time"

	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
)

// A journal that a version wrote which did not journal what retention removes opens, verifies, and
// goes on; retention on it, too. Of its four segments that version had removed one.
func TestAJournalOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	dir, archive := joined(t, filepath.Join(vectorsDir, "before")), t.TempDir()
	a, err := audit(t, dir)
	wantVerdicts(t, a, err, "", "1-15 removed", "16-62 consistent")

	now := a.State.Time.Add(time.Hour)
	j := journaltest.OpenWith(t, eventlog.Config{
		Dir: dir, ArchiveDir: archive, Now: func() time.Time { return now }, SegmentAge: 24 * time.Hour, Retention: 40 * time.Hour,
	})
	if job := journaltest.Snapshot(j).Jobs[99]; job == nil || job.Token != "@last" {
		t.Errorf("a job that was under way is %+v", job)
	}
	journaltest.MustAppend(t, j, journaltest.WholeLife(100)...)
	for range 4 {
		now = now.Add(24 * time.Hour)
		journaltest.MustAppend(t, j, journaltest.WholeLife(101)...)
		j.SetPosition(journaltest.Snapshot(j).Seq)
		journaltest.MustMaintain(t, j)
	}
	journaltest.MustClose(t, j)
	if removed := journaltest.Snapshot(j).Removed; removed == nil || removed.Segment < 4 || removed.Noted != 1 {
		t.Errorf("removed is %+v", removed)
	}
	a, err = audit(t, dir)
	wantVerdicts(t, a, err, "", "1-76 removed", "77-86 consistent")
	a, err = audit(t, joined(t, archive, dir))
	wantVerdicts(t, a, err, "", "1-15 removed", "16-86 consistent")
	if a.Unproven != 15 {
		t.Errorf("unproven up to %d", a.Unproven)
	}
}
