package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
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
	j.begun[j.newest.Number] -= j.config.SegmentAge.Microseconds()
}

func mustMaintain(t testing.TB, j *Log) {
	t.Helper()
	must.Do(t, j.Maintain(t.Context()), "Maintain")
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
	must.Equal(t, must.Get(r.First(t.Context()))(t), 51, "the history begins with")
	j.SetPosition(200)
	mustMaintain(t, j)
	must.Equal(t, must.Get(r.First(t.Context()))(t), 151, "the history begins with")
	kept := events(t, r, journal.Filter{Output: true})
	check.Equal(t, cmp.Diff(all[150:], kept[:50]), "")
	if diff := cmp.Diff([]journal.Payload{
		journal.Retention{First: 1, Last: 1, Seq: 50, Hash: all[49].Hash.String(), Reason: "older than 1ns", Archive: archive}, journal.Retention{First: 2, Last: 3, Seq: 150, Hash: all[149].Hash.String(), Reason: "older than 1ns", Archive: archive},
	}, []journal.Payload{kept[50].Payload, kept[51].Payload}); diff != "" || len(kept) != 52 {
		t.Error(diff)
	}
	old := openReader(t, archive)
	check.Equal(t, cmp.Diff(all[:150], events(t, old, journal.Filter{Output: true})), "")
	for name, r := range map[string]*replay.Reader{"live": r, "archive": old} {
		audited, err := verify.Audit(context.Background(), r.Folder(), []journal.Anchor{{Seq: all[149].Seq, Hash: all[149].Hash}}, nil)
		if err != nil || audited.Compared != 1 {
			t.Errorf("%s: %+v, %v", name, audited, err)
		}
	}
	mustClose(t, j)
	again := openWith(t, Config{Dir: dir})
	check.Equal(t, again.Position(), 200, "position")
	if _, err := again.Claim(t.Context(), 1, 200); err == nil {
		t.Error("a claim that was archived was found")
	}
	claim := must.Get(again.Claim(t.Context(), 1_000_040, 201))(t)
	check.Equal(t, claim.Token, "@waiting", "%+v", claim)
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
	s := must.Get(archive.OpenAppender(t.Context(), dir, 1))(t)
	defer s.Close()
	if err := os.Remove(archive.DatabasePath(dir, 1) + "-wal"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	check.Do(t, s.Checkpoint(0))
}

// Pitfall 22: a bug that corrupts the write-ahead log is fixed in 3.51.3, and in 3.53. The jobs table has the same SQLite.
func TestSQLiteIsNotTooOld(t *testing.T) {
	t.Parallel()
	var major, minor, patch int
	var version string
	must.Do(t, writer(openTest(t, t.TempDir())).QueryRowContext(t.Context(), `SELECT sqlite_version()`).Scan(&version))
	must.Get(fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch))(t)
	if have := major*1_000_000 + minor*1000 + patch; have < 3_051_003 || minor == 52 {
		t.Fatalf("SQLite %s", version)
	}
}

func writer(j *Log) *sql.Conn { return j.disk.(onDisk).Appender.Conn }

func TestEventsAreAppendOnly(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	mustAppend(t, j, wholeLife(1)...)
	const row = ` VALUES (%d, 0, 1, 'closed', '{}', NULL, NULL, x'00')`
	for name, c := range map[string]struct{ statement, says string }{
		"update":             {`UPDATE records SET job = 2`, "append-only"},
		"update of a number": {`UPDATE records SET seq = 5 WHERE seq = 4`, "append-only"},
		"delete":             {`DELETE FROM records WHERE seq = 4`, "append-only"},
		"again":              {`INSERT INTO records` + fmt.Sprintf(row, 4), "UNIQUE constraint"},
		"upsert":             {`INSERT INTO records` + fmt.Sprintf(row, 4) + ` ON CONFLICT DO UPDATE SET job = 2`, "append-only"},
		"second position":    {`INSERT INTO mirror VALUES (2, 0, 1)`, "constraint"},
		"update the view":    {`UPDATE events SET job = 2`, "it is a view"},
		"delete from it":     {`DELETE FROM events`, "it is a view"},
		"insert into it":     {`INSERT INTO events` + fmt.Sprintf(row, 5), "it is a view"},
		"replace in it":      {`REPLACE INTO events` + fmt.Sprintf(row, 1), "it is a view"},
	} {
		_, err := writer(j).ExecContext(t.Context(), c.statement)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	state := must.Get(verifyAll(t.Context(), j.reader))(t)
	must.Equal(t, state.Seq, 4, "the journal ends at")
}

// A row that somebody put among the records is met by the next append, which covers nothing of it
// up.
func TestForeignEventsAreMet(t *testing.T) {
	t.Parallel()
	for name, foreign := range map[string]struct{ seq, bad int }{"next": {5, 5}, "gap": {7, 5}, "before": {0, 1}, "last of all": {math.MaxInt64, 5}} {
		for _, lives := range []int{1, 3} {
			j := openTest(t, t.TempDir())
			mustAppend(t, j, wholeLife(1)...)
			statement := fmt.Sprintf(`INSERT INTO records VALUES (%d, 0, 1, 'closed', '{}', NULL, NULL, zeroblob(32))`, foreign.seq)
			must.Get(writer(j).ExecContext(t.Context(), statement))(t)
			var drafts []journal.Draft
			for job := range lives {
				drafts = append(drafts, wholeLife(int64(job+2))...)
			}
			damaged := new(journal.DamagedError)
			if _, err := j.Append(drafts...); (foreign.seq > 4) != errors.As(err, &damaged) {
				t.Errorf("%s, %d jobs: Append: %v", name, lives, err)
			}
			if _, err := verifyAll(t.Context(), j.reader); !errors.As(err, &damaged) || damaged.Seq != uint64(foreign.bad) {
				t.Errorf("%s, %d jobs: Verify: %v, want damage at %d", name, lives, err, foreign.bad)
			}
			if _, err := j.Append(wholeLife(9)...); (foreign.seq > 4) != (err != nil) {
				t.Errorf("%s, %d jobs: next Append: %v", name, lives, err)
			}
		}
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	mustAppend(t, j, wholeLife(1)...)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 5 {
		t.Fatalf("%d files, %v; want database, log, index, head and lock", len(entries), err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %v, %v", entry.Name(), info.Mode(), err)
		}
	}
}

// Names that mean something in an address must not change what is opened.
func TestFolderNamesAreTakenLiterally(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b", "50%25", "q?mode=memory", "#1", "ünï", "a&b=c"} {
		dir := filepath.Join(t.TempDir(), name)
		must.Do(t, os.Mkdir(dir, 0o700))
		j := openTest(t, dir)
		mustAppend(t, j, wholeLife(1)...)
		mustClose(t, j)
		state := must.Get(verifyAll(context.Background(), openReader(t, dir)))(t)
		check.Equal(t, state.Seq, 4, "%q: the journal ends at", name)
	}
}

func TestOpenSaysWhatIsWrongWithTheFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for _, path := range []string{filepath.Join(dir, "missing"), file} {
		if _, err := Open(t.Context(), Config{Dir: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Open %s: %v", path, err)
		}
		if _, err := replay.Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("OpenReader %s: %v", path, err)
		}
	}
	if _, err := replay.Open(dir); err == nil || !strings.Contains(err.Error(), "there is no journal in this folder") {
		t.Errorf("OpenReader of an empty folder: %v", err)
	}
}

// A first start may die between any two of its steps.
func TestMakingIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(dir string) error{
		"an empty database": func(dir string) error { return os.WriteFile(filepath.Join(dir, segmentFile), nil, 0o600) },
		"an empty head":     func(dir string) error { return os.WriteFile(filepath.Join(dir, "head"), nil, 0o600) },
		"a database without a head": func(dir string) error {
			h, err := archive.NewHeader(1, &journal.State{})
			return errors.Join(err, archive.Make(context.Background(), dir, h, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must.Do(t, prepare(dir))
			j := openTest(t, dir)
			mustAppend(t, j, wholeLife(1)...)
		})
	}
}

func TestRestEmptiesALargeLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir)
	log := filepath.Join(dir, segmentFile+"-wal")
	large := journal.Output{Kept: noise(maxLog + 1), Size: maxLog + 1}
	mustAppend(t, j, journal.Draft{Job: 1, Payload: journal.Accepted{Target: "t"}}, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1}}, journal.Draft{Job: 1, Payload: journal.Done{Result: "ok", Stdout: large}})
	if info, err := os.Stat(log); err != nil || info.Size() <= maxLog {
		t.Fatalf("the log has %d bytes (%v)", info.Size(), err)
	}
	must.Do(t, j.Rest())
	if info, err := os.Stat(log); err != nil || info.Size() != 0 {
		t.Fatalf("the log has %d bytes (%v)", info.Size(), err)
	}
}

// Appends look at when the newest segment began while maintenance forgets that of removed ones.
func TestAppendsBesideTheRemovalOfSegments(t *testing.T) {
	t.Parallel()
	j := openTest(t, t.TempDir())
	defer mustClose(t, j)
	mustAppend(t, j, wholeLife(1)...)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				j.mu.Lock() // as noteClock does
				j.begun[-1] = 0
				delete(j.begun, -1)
				j.mu.Unlock()
			}
		}
	}()
	now := j.clock.read().real
	for range 200_000 { // as each append does
		j.due(now)
	}
	close(stop)
	<-stopped
}
