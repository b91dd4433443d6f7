package verify_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
	"jobd/journal/journaltest/readtest"
	"jobd/journal/replay"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func onFile(name string, change func(content []byte) []byte) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		changeFile(t, filepath.Join(dir, name), change)
	}
}

func remove(name string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		must.Do(t, os.Remove(filepath.Join(dir, name)))
	}
}

// Open and Verify report every change, and name the first event concerned.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	original := journaltest.ClosedJournal(t, 5) // 20 events
	const other = `unhex('` + "00000000000000000000000000000000000000000000000000000000000000ff" + `')`
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		seq    uint64 // what the error is about; 0: it cannot tell
		says   string
	}{
		"payload":                {readtest.Tamper(1, `UPDATE records SET payload = '{"attempt":2}' WHERE seq = 6`), 6, "hash does not match"},
		"hash":                   {readtest.Tamper(1, `UPDATE records SET hash = `+other+` WHERE seq = 7`), 7, "hash does not match"},
		"short hash":             {readtest.Tamper(1, `UPDATE records SET hash = x'00' WHERE seq = 7`), 7, "its hash does not match"},
		"time":                   {readtest.Tamper(1, `UPDATE records SET time = time + 1 WHERE seq = 8`), 8, "hash does not match"},
		"job":                    {readtest.Tamper(1, `UPDATE records SET job = 99 WHERE seq = 1`), 1, "hash does not match"},
		"kind":                   {readtest.Tamper(1, `UPDATE records SET kind = 'closed' WHERE seq = 20`), 20, "hash does not match"},
		"output":                 {readtest.Tamper(1, `UPDATE records SET stdout = x'00' WHERE seq = 4`), 4, "hash does not match"},
		"number":                 {readtest.Tamper(1, `UPDATE records SET seq = 21 WHERE seq = 20`), 20, "it is missing; event 21 follows"},
		"swapped":                {readtest.Tamper(1, `UPDATE records SET seq = -seq WHERE seq IN (6, 7)`, `UPDATE records SET seq = 13 + seq WHERE seq < 0`), 0, ""},
		"deleted middle":         {readtest.Tamper(1, `DELETE FROM records WHERE seq BETWEEN 9 AND 12`), 9, "it is missing; event 13 follows"},
		"deleted beginning":      {readtest.Tamper(1, `DELETE FROM records WHERE seq < 5`), 1, "it is missing; event 5 follows"},
		"deleted tail":           {readtest.Tamper(1, `DELETE FROM records WHERE seq > 17`), 18, "events up to 20 were acknowledged, the journal ends at 17"},
		"deleted everything":     {readtest.Tamper(1, `DELETE FROM records`), 1, "events up to 20 were acknowledged, the journal ends at 0"},
		"inserted":               {readtest.Tamper(1, `INSERT INTO records VALUES (0, 0, 0, 'closed', '{}', NULL, NULL, `+other+`)`), 1, "event 0 follows"},
		"inserted far below":     {readtest.Tamper(1, `INSERT INTO records VALUES (-9, 0, 0, 'closed', '{}', NULL, NULL, `+other+`)`), 1, "event -9 follows"},
		"added":                  {readtest.Tamper(1, `INSERT INTO records VALUES (21, 0, 0, 'closed', '{}', NULL, NULL, `+other+`)`), 21, "hash does not match"},
		"no position":            {readtest.Tamper(1, `DELETE FROM mirror`), 0, "the mirror's position is missing"},
		"position too far":       {readtest.Tamper(1, `UPDATE mirror SET seq = 21`), 21, "the jobs table shows event 21"},
		"a trigger dropped":      {readtest.Tamper(1, `DROP TRIGGER IF EXISTS records_no_delete`, `DROP INDEX records_job`), 0, "are not those that it was made with"},
		"table dropped":          {readtest.Tamper(1, `DROP TABLE mirror`), 0, "are not those that it was made with"},
		"version lost":           {readtest.Tamper(1, `PRAGMA user_version = 0`), 0, "it claims to be of version 0"},
		"version negative":       {readtest.Tamper(1, `PRAGMA user_version = -1`), 0, "it claims to be of version -1"},
		"head missing":           {remove("head"), 0, "the head file is missing"},
		"head empty":             {onFile("head", func([]byte) []byte { return nil }), 0, "the head file is missing"},
		"head garbage":           {onFile("head", func(b []byte) []byte { return []byte(strings.Repeat("x", len(b))) }), 0, "the head file is not readable"},
		"head too long":          {onFile("head", func(b []byte) []byte { return append(b, 'x') }), 0, "the head file is not readable"},
		"head's hash no hash":    {onFile("head", func(b []byte) []byte { return slices.Concat(b[:len(b)-3], []byte("zz\n")) }), 0, "the head file is not readable"},
		"head of another one":    {onFile("head", func([]byte) []byte { return fmt.Appendf(nil, readtest.HeadFormat, 20, journal.Hash{1}) }), 20, "it is not the event that was acknowledged"},
		"head ahead":             {onFile("head", func([]byte) []byte { return fmt.Appendf(nil, readtest.HeadFormat, 25, journal.Hash{1}) }), 21, "events up to 25 were acknowledged"},
		"database missing":       {remove(readtest.SegmentFile), 1, "the database is gone or empty"},
		"database empty":         {onFile(readtest.SegmentFile, func([]byte) []byte { return nil }), 1, "the database is gone or empty"},
		"database garbage":       {onFile(readtest.SegmentFile, func(b []byte) []byte { return []byte(strings.Repeat("garbage!", len(b)/8)) }), 0, "not a database"},
		"database cut in half":   {onFile(readtest.SegmentFile, func(b []byte) []byte { return b[:len(b)/2] }), 0, ""},
		"database half of zeros": {onFile(readtest.SegmentFile, func(b []byte) []byte { return append(b[:len(b)/2], make([]byte, len(b)/2)...) }), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := readtest.CopyFolder(t, original)
			c.damage(t, dir)
			before := readtest.Listing(t, dir)
			_, err := eventlog.Open(t.Context(), eventlog.Config{Dir: dir})
			refused(t, "Open", err, c.seq, c.says)
			after := readtest.Listing(t, dir)
			delete(before, archive.LockFile) // bears the newest holder's name
			delete(after, archive.LockFile)
			check.Equal(t, cmp.Diff(before, after), "", "Open changed the damaged journal")
			refused(t, "Verify", readtest.VerdictOn(t.Context(), dir), c.seq, c.says)
		})
	}
}

func refused(t *testing.T, op string, err error, seq uint64, says string) {
	t.Helper()
	var d *journal.DamagedError
	if !errors.As(err, &d) || seq != 0 && d.Seq != seq || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v; want damage at %d: …%s", op, err, seq, says)
	}
}

func TestOldHeadIsLegal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := journaltest.OpenTest(t, dir)
	journaltest.MustAppend(t, j, readtest.WholeLife(1)...)
	old := must.Get(os.ReadFile(filepath.Join(dir, "head")))(t)
	journaltest.MustAppend(t, j, readtest.WholeLife(2)...)
	journaltest.MustClose(t, j)
	onFile("head", func([]byte) []byte { return old })(t, dir)
	check.Do(t, readtest.VerdictOn(t.Context(), dir))
	journaltest.MustClose(t, journaltest.OpenTest(t, dir))
}

func TestOtherVersionsAreRefused(t *testing.T) {
	t.Parallel()
	const old = "was written before the first release, and is not read any more: let the jobd that wrote it end its jobs, then move the folder away"
	for version, says := range map[int]string{
		1: "version 1 " + old,
		2: "version 2 " + old,
		4: "version 4 was written by a newer jobd; this one knows version 3",
	} {
		dir := journaltest.ClosedJournal(t, 1)
		readtest.Tamper(1, fmt.Sprintf(`PRAGMA user_version = %d`, version))(t, dir)
		if _, err := eventlog.Open(t.Context(), eventlog.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Open: %v", err)
		}
		if _, err := replay.Open(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("OpenReader: %v", err)
		}
	}
}

// An index that does not know all events would hide them from a job's history.
func TestVerifyChecksTheIndex(t *testing.T) {
	t.Parallel()
	dir := journaltest.ClosedJournal(t, 1)
	db := archive.OpenForWriting(filepath.Join(dir, readtest.SegmentFile))
	for _, statement := range []string{
		`PRAGMA writable_schema = ON`,
		`UPDATE sqlite_schema SET sql = replace(sql, 'job <> 0', 'job = 77') WHERE name = 'records_job'`,
		`PRAGMA writable_schema = RESET`, `REINDEX`, `PRAGMA writable_schema = ON`,
		`UPDATE sqlite_schema SET sql = replace(sql, 'job = 77', 'job <> 0') WHERE name = 'records_job'`,
	} {
		must.Get(db.Exec(statement))(t)
	}
	must.Do(t, db.Close())
	refused(t, "Verify", readtest.VerdictOn(t.Context(), dir), 0, "missing from index records_job")
}

// Every block of a small journal, zeroed, is found, or holds nothing that matters.
func TestEveryBlockMatters(t *testing.T) {
	t.Parallel()
	original := journaltest.ClosedJournal(t, 40)
	want := readtest.Events(t, readtest.OpenReader(t, original), journal.Filter{Output: true})
	content := must.Get(os.ReadFile(filepath.Join(original, readtest.SegmentFile)))(t)
	const block = 512
	dir := readtest.CopyFolder(t, original)
	found := 0
	for at := 0; at < len(content); at += block {
		damaged := slices.Clone(content)
		clear(damaged[at : at+block])
		must.Do(t, os.WriteFile(filepath.Join(dir, readtest.SegmentFile), damaged, 0o600))
		if err := readtest.VerdictOn(t.Context(), dir); err != nil {
			found++
			continue
		}
		r := readtest.OpenReader(t, dir)
		check.Diff(t, want, readtest.Events(t, r, journal.Filter{Output: true}), "block at %d: nothing found, but", at)
		for job := range int64(41) {
			if n := len(readtest.Events(t, r, journal.Filter{Job: job})); job > 0 && n != 4 {
				t.Errorf("block at %d: nothing found, but job %d has %d events", at, job, n)
			}
		}
		if j, err := eventlog.Open(t.Context(), eventlog.Config{Dir: dir}); err == nil {
			must.Do(t, j.Close())
		}
	}
	if found < len(content)/block/2 {
		t.Errorf("only %d of %d blocks matter", found, len(content)/block)
	}
}

// endReadings are all readings that depend on where the journal ends.
func endReadings(ctx context.Context, r *replay.Reader) map[string]error {
	last := func(f journal.Filter) error { return readtest.Drain(r, f) }
	readings := map[string]error{
		"events":       last(journal.Filter{}),
		"job":          last(journal.Filter{Job: 3}),
		"absent job":   last(journal.Filter{Job: 99}),
		"last":         last(journal.Filter{Last: 2}),
		"last of job":  last(journal.Filter{Job: 2, Last: 1}),
		"last, absent": last(journal.Filter{Job: 99, Last: 1}), // it once looked for ever
		"until":        last(journal.Filter{Until: time.Now().Add(24 * time.Hour)}),
		"job until":    last(journal.Filter{Job: 3, Until: time.Now().Add(24 * time.Hour)}),
		"kinds":        last(journal.Filter{Kinds: []journal.Kind{journal.KindDone}}),
		"last, target": last(journal.Filter{Target: "t", Last: 1}),
	}
	_, readings["anchor"] = r.Anchor(ctx)
	_, readings["newest"] = r.Newest(ctx)
	_, readings["state"] = readtest.StateAt(ctx, r, time.Time{})
	_, readings["state at"] = readtest.StateAt(ctx, r, time.Now().Add(24*time.Hour))
	for _, err := range r.Jobs(ctx, time.Time{}) {
		readings["jobs"] = err
	}
	_, readings["verify"] = readtest.VerifyAll(ctx, r)
	return readings
}

// All answers that depend on the end of a journal say so where it is not what it was: readers once gave a
// job's story without its end, and an anchor that would have vouched for the cut.
func TestEveryReadingMeetsTheEnd(t *testing.T) {
	t.Parallel()
	small, large := journaltest.ClosedJournal(t, 3), journaltest.Large(t)
	// withoutNewest leaves sealed segments, and one of the files that a worker keeps beside them, which tell a
	// journal that lost its newest segment from an archive.
	withoutNewest := func(kept string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			parts := must.Get(archive.List(dir))(t)
			must.Equal(t, len(parts), 2, "segments")
			remove(filepath.Base(parts[1].Path))(t, dir)
			for _, name := range []string{archive.HeadFile, archive.LockFile, archive.ClockFile} {
				must.Do(t, os.RemoveAll(filepath.Join(dir, name)))
			}
			if kept != "" {
				must.Do(t, os.WriteFile(filepath.Join(dir, kept), []byte("x"), 0o600))
			}
		}
	}
	for name, c := range map[string]struct {
		journal string
		damage  func(t *testing.T, dir string)
		detail  string
	}{
		"nothing":                        {small, func(*testing.T, string) {}, ""},
		"cut off":                        {small, readtest.Tamper(1, `DELETE FROM records WHERE seq > 9`), "events up to 12 were acknowledged, the journal ends at 9"},
		"no head":                        {small, remove(archive.HeadFile), archive.DetailNoHead}, // which is made before the first event
		"an archive":                     {large, withoutNewest(""), ""},
		"no newest segment, but a lock":  {large, withoutNewest(archive.LockFile), archive.DetailAllSealed},
		"no newest segment, but a clock": {large, withoutNewest(archive.ClockFile), archive.DetailAllSealed},
	} {
		dir := readtest.CopyFolder(t, c.journal)
		c.damage(t, dir)
		for reading, err := range endReadings(t.Context(), readtest.OpenReader(t, dir)) {
			var damage *journal.DamagedError
			if c.detail == "" && err != nil || c.detail != "" && (!errors.As(err, &damage) || damage.Detail != c.detail) {
				t.Errorf("%s: %s: %v, want %q", name, reading, err, c.detail)
			}
		}
	}
}

// Pitfall 21: what the write-ahead log lost is gone without a trace for SQLite.
func TestLogThatLostItsEnd(t *testing.T) {
	t.Parallel()
	live := t.TempDir()
	j := journaltest.OpenTest(t, live)
	for job := range int64(10) {
		journaltest.MustAppend(t, j, readtest.WholeLife(job+1)...)
	}
	original := readtest.CopyFolder(t, live) // as a crash leaves it
	const log = readtest.SegmentFile + "-wal"
	for name, damage := range map[string]func(t *testing.T, dir string){
		"truncated":     onFile(log, func(b []byte) []byte { return b[:len(b)-len(b)/4] }),
		"cut by a byte": onFile(log, func(b []byte) []byte { return b[:len(b)-1] }),
		"emptied":       onFile(log, func([]byte) []byte { return nil }),
		"removed":       remove(log),
		"flipped frame": onFile(log, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
		"flipped salt":  onFile(log, func(b []byte) []byte { b[16] ^= 1; return b }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := readtest.CopyFolder(t, original)
			must.Do(t, readtest.VerdictOn(t.Context(), dir), "before")
			damage(t, dir)
			if err := os.Remove(filepath.Join(dir, readtest.SegmentFile+"-shm")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			refused(t, "Verify", readtest.VerdictOn(t.Context(), dir), 0, "")
			content, err := os.ReadFile(filepath.Join(dir, log))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			_, openErr := eventlog.Open(t.Context(), eventlog.Config{Dir: dir})
			refused(t, "Open", openErr, 0, "")
			if kept, _ := os.ReadFile(filepath.Join(dir, log)); string(kept) != string(content) {
				t.Error("Open threw away what is left of the log")
			}
		})
	}
}

// A journal that a version wrote which did not journal what retention removes opens, verifies, and
// goes on; retention on it, too. Of its four segments that version had removed one.
func TestAJournalOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	dir, archive := joined(t, filepath.Join(vectorsDir, "before")), t.TempDir()
	a, err := audit(t, dir)
	wantVerdict(t, a, err, "", 62, 0)
	if a.Unproven != 15 || a.First != 16 {
		t.Errorf("%+v", a)
	}

	now := a.State.Time.Add(time.Hour)
	j := journaltest.OpenWith(t, eventlog.Config{
		Dir: dir, ArchiveDir: archive, Now: func() time.Time { return now }, SegmentAge: 24 * time.Hour, Retention: 40 * time.Hour,
	})
	if job := readtest.Snapshot(j).Jobs[99]; job == nil || job.Token != "@last" {
		t.Errorf("a job that was under way is %+v", job)
	}
	journaltest.MustAppend(t, j, readtest.WholeLife(100)...)
	for range 4 {
		now = now.Add(24 * time.Hour)
		journaltest.MustAppend(t, j, readtest.WholeLife(101)...)
		j.SetPosition(readtest.Snapshot(j).Seq)
		journaltest.MustMaintain(t, j)
		journaltest.MustMaintain(t, j) // once is enough
	}
	journaltest.MustClose(t, j)
	if removed := readtest.Snapshot(j).Removed; removed == nil || removed.Segment < 4 || removed.Noted != 1 {
		t.Errorf("removed is %+v", removed)
	}
	a, err = audit(t, dir)
	wantVerdict(t, a, err, "", 86, 0)
	if a.First != 77 {
		t.Errorf("it begins with event %d", a.First)
	}
	a, err = audit(t, joined(t, archive, dir))
	wantVerdict(t, a, err, "", 86, 0)
	if a.Unproven != 15 || a.First != 16 {
		t.Errorf("unproven up to %d, the first is %d", a.Unproven, a.First)
	}

	dir = joined(t, filepath.Join(vectorsDir, "before")) // what goes behind what that version removed is told
	j = journaltest.OpenWith(t, eventlog.Config{Dir: dir, Now: func() time.Time { return now }})
	journaltest.MustMaintain(t, j)
	journaltest.MustClose(t, j)
	remove("segment-00000002.zst")(t, dir)
	a, err = audit(t, dir)
	wantVerdict(t, a, err, "at event 16: the history begins with segment 3, and no event says", 15, 0)
}
