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

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
)

// Pitfall 22: a bug that corrupts the write-ahead log is fixed in 3.51.3.
func TestSQLiteIsNotTooOld(t *testing.T) {
	t.Parallel()
	var major, minor, patch int
	var version string
	if err := writer(openTest(t, t.TempDir())).QueryRowContext(t.Context(), `SELECT sqlite_version()`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		t.Fatal(err)
	}
	if have := major*1_000_000 + minor*1000 + patch; have < 3_051_003 {
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
	if state, err := verifyAll(t.Context(), j.reader); err != nil || state.Seq != 4 {
		t.Fatalf("the journal ends at %d: %v", state.Seq, err)
	}
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
			if _, err := writer(j).ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
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
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		j := openTest(t, dir)
		mustAppend(t, j, wholeLife(1)...)
		mustClose(t, j)
		if state, err := verifyAll(context.Background(), openReader(t, dir)); err != nil || state.Seq != 4 {
			t.Errorf("%q: the journal ends at %d: %v", name, state.Seq, err)
		}
	}
}

func TestOpenSaysWhatIsWrongWithTheFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
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
			return errors.Join(err, archive.Make(context.Background(), dir, h, archive.Notes{Kept: 1}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			j := openTest(t, dir)
			mustAppend(t, j, wholeLife(1)...)
		})
	}
}
