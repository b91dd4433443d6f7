package eventlog

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// rolled is a journal whose segments have so many appends of whole lives each.
func rolled(t testing.TB, segments, lives int) *Log {
	t.Helper()
	j := openWith(t, Config{Dir: t.TempDir(), Now: ticking()})
	for s := range segments {
		if s > 0 {
			roll(t, j)
		}
		for n := range lives {
			job := int64(s*lives + n + 1)
			mustAppend(t, j, wholeLife(job)...)
			mustAppend(t, j, journal.Draft{Job: job + 1_000_000, Payload: journal.Accepted{Target: "t", Token: "@waiting"}})
		}
	}
	return j
}

// roll lets the next append begin a new segment.
func roll(t testing.TB, j *Log) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ages.begun = j.ages.begun.Add(-j.config.SegmentAge)
}

func names(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func mustMaintain(t testing.TB, j *Log) {
	t.Helper()
	if err := j.Maintain(t.Context()); err != nil {
		t.Fatalf("Maintain: %v", err)
	}
}

// However its segments lie on the disk, the history is the same.
func TestSegmentsAreOneHistory(t *testing.T) {
	t.Parallel()
	j := rolled(t, 4, 10)
	dir := j.config.Dir
	r := openReader(t, dir)
	want := events(t, r, journal.Filter{Output: true})
	if len(want) != 4*10*5 {
		t.Fatalf("%d events", len(want))
	}
	wantState := snapshot(j)
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(want, events(t, r, journal.Filter{Output: true})); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
		state, err := verifyAll(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: Verify: %v", when, err)
		}
		if diff := cmp.Diff(wantState.Unfinished(), state.Unfinished()); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	same("before sealing")
	mustMaintain(t, j)
	same("sealed")
	if diff := cmp.Diff([]string{
		"head", "lock", "segment-00000001.zst", "segment-00000002.zst", "segment-00000003.zst",
		"segment-00000004.db", "segment-00000004.db-shm", "segment-00000004.db-wal",
	}, names(t, dir)); diff != "" {
		t.Error(diff)
	}
	mustClose(t, j)
	same("closed")
	again := openWith(t, Config{Dir: dir, Now: ticking()})
	if diff := cmp.Diff(wantState, snapshot(again)); diff != "" {
		t.Error(diff)
	}
	mustClose(t, again)
}

func TestRollOverBySizeAndAge(t *testing.T) {
	t.Parallel()
	now := base
	for name, c := range map[string]struct {
		config Config
		pass   time.Duration
		want   int
	}{
		"by size":    {Config{SegmentSize: 1}, 0, 10},
		"by age":     {Config{SegmentAge: time.Hour}, 30 * time.Minute, 5},
		"not at all": {Config{}, time.Minute, 1},
	} {
		c.config.Dir = t.TempDir()
		c.config.Now = func() time.Time { now = now.Add(c.pass); return now }
		j := openWith(t, c.config)
		for job := range int64(10) {
			mustAppend(t, j, wholeLife(job+1)...)
		}
		if _, segments := j.Usage(); segments != c.want {
			t.Errorf("%s: %d segments, want %d", name, segments, c.want)
		}
		mustClose(t, j)
		if _, err := verifyAll(t.Context(), openReader(t, c.config.Dir)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	archive := t.TempDir()
	j := rolled(t, 4, 10)
	j.config.Retention, j.config.ArchiveDir = time.Nanosecond, archive
	dir := j.config.Dir
	r := openReader(t, dir)
	all := events(t, r, journal.Filter{Output: true})
	j.SetPosition(99) // the last but one event of segment 2
	mustMaintain(t, j)
	if first, err := r.First(t.Context()); err != nil || first != 51 {
		t.Fatalf("the history begins with %d, %v", first, err)
	}
	j.SetPosition(200)
	mustMaintain(t, j)
	if first, err := r.First(t.Context()); err != nil || first != 151 {
		t.Fatalf("the history begins with %d, %v", first, err)
	}
	kept := events(t, r, journal.Filter{Output: true})
	if diff := cmp.Diff(all[150:], kept[:50]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]journal.Payload{
		journal.Retention{First: 1, Last: 1, Seq: 50, Hash: all[49].Hash.String(), Reason: "older than 1ns", Archive: archive}, journal.Retention{First: 2, Last: 3, Seq: 150, Hash: all[149].Hash.String(), Reason: "older than 1ns", Archive: archive},
	}, []journal.Payload{kept[50].Payload, kept[51].Payload}); diff != "" || len(kept) != 52 {
		t.Error(diff)
	}
	old := openReader(t, archive)
	if diff := cmp.Diff(all[:150], events(t, old, journal.Filter{Output: true})); diff != "" {
		t.Error(diff)
	}
	for name, r := range map[string]*replay.Reader{"live": r, "archive": old} {
		audited, err := verify.Audit(context.Background(), r.Folder(), []journal.Anchor{{Seq: all[149].Seq, Hash: all[149].Hash}}, nil)
		if err != nil || audited.Compared != 1 {
			t.Errorf("%s: %+v, %v", name, audited, err)
		}
	}
	mustClose(t, j)
	again := openWith(t, Config{Dir: dir})
	if again.Position() != 200 {
		t.Errorf("position %d", again.Position())
	}
	if _, err := again.Claim(t.Context(), 1, 200); err == nil {
		t.Error("a claim that was archived was found")
	}
	if claim, err := again.Claim(t.Context(), 1_000_040, 201); err != nil || claim.Token != "@waiting" {
		t.Errorf("%+v, %v", claim, err)
	}
}

// Whether a claim itself announced a start is what the next start of the worker needs to know of
// it, across segments.
func TestAStartAnnouncedByItsClaimIsKnownInTheNextSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	mustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Accepted{Target: "t", Token: "@abcdefghi"}}, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1, Runner: "r", Claimed: true}})
	roll(t, j)
	mustAppend(t, j, journal.Draft{Job: 2, Payload: journal.Accepted{Target: "t", Token: "@abcdefghj"}})
	mustClose(t, j)
	state := snapshot(openTest(t, dir))
	if job := state.Job(1); job.Status != journal.StatusStarting || !job.Claimed {
		t.Errorf("after the next segment has begun: %+v", job)
	}
}

// Regression: a segment that nothing was written to yet has no log, and upkeep that met it waited
// for a minute.
func TestASegmentWithoutALogHasNothingToEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mustClose(t, openTest(t, dir))
	s, err := archive.OpenAppender(t.Context(), dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := os.Remove(archive.DatabasePath(dir, 1) + "-wal"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := s.Checkpoint(0); err != nil {
		t.Error(err)
	}
}
