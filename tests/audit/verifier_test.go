package audit

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// to change rows behind the journal's back

const (
	verifier   = "../../tools/verify.py"
	vectorsDir = "../../testdata/journal"
)

// theirs is what tools/verify.py says of folders: nil where it verifies them.
func theirs(t *testing.T, args ...string) error {
	t.Helper()
	output, err := exec.Command("python3", append([]string{verifier}, args...)...).CombinedOutput()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() == 1 && !bytes.Contains(output, []byte("Traceback")):
		return errors.New(strings.TrimSpace(string(output)))
	case err != nil || !bytes.HasPrefix(output, []byte("verified: ")):
		t.Fatalf("%s: %v\n%s", verifier, err, output)
	}
	return nil
}

// ours is what this version says of a folder.
func ours(t *testing.T, dir string) error {
	t.Helper()
	r, err := replay.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = verify.Audit(context.Background(), r.Folder(), nil, nil)
	return err
}

// agree fails where the two verifiers don't say the same of a folder, or not what is expected: sound, damaged, or either.
func agree(t *testing.T, what, dir, expected string) {
	t.Helper()
	our, their := ours(t, dir), theirs(t, dir)
	if (our == nil) != (their == nil) {
		t.Errorf("%s: we say %v, %s says %v", what, our, filepath.Base(verifier), their)
	}
	if expected == "sound" && their != nil || expected == "damaged" && their == nil {
		t.Errorf("%s: %v, expected was %s", what, their, expected)
	}
}

// joined is copies of the files of several folders in one.
func joined(t *testing.T, dirs ...string) string {
	t.Helper()
	to := t.TempDir()
	for _, dir := range dirs {
		must.Do(t, os.CopyFS(to, os.DirFS(dir)))
		for name := range contents(t, to) {
			must.Do(t, os.Chmod(filepath.Join(to, name), 0o600))
		}
	}
	return to
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := make(map[string][]byte)
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if err == nil {
			all[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name()))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A verifier that was written from docs/journal.md alone says of journals what we say of them.
func TestTheOtherVerifierAgrees(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	fresh, archive := t.TempDir(), t.TempDir()
	j := writeShortened(t, fresh, archive, random)
	running := joined(t, fresh) // with a write-ahead log, as a crash leaves it
	must.Do(t, j.Close())
	agree(t, "an older version's", vectorsDir+"/before", "sound")
	for name, dirs := range map[string][]string{
		"vectors": {vectorsDir + "/journal", vectorsDir + "/archive"}, "fresh": {fresh, archive}, "running": {running, archive},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, random := joined(t, dirs...), rand.New(rand.NewPCG(seed, uint64(len(name))))
			agree(t, "journal alone", dirs[0], "sound")
			agree(t, "archive alone", dirs[1], "sound")
			agree(t, "both", dir, "sound")
			check.Do(t, theirs(t, dirs...))
			anchors(t, dir)
			if name == "fresh" {
				mutations(t, dir)
			}
			if name != "fresh" || harness.Long() {
				flips(t, dir, random, name == "running")
			}
		})
	}
}

// writeShortened writes a week of which retention has taken the beginning to an archive. The journal is still open.
func writeShortened(t *testing.T, dir, archive string, random *rand.Rand) *eventlog.Log {
	t.Helper()
	week := &week{random: random, worker: "node-1 <&>\u2028", targets: map[string]int{"mail": 2, "vidéo/\"high\"": 1}, id: 1}
	week.live()
	now := monday
	j := must.Get(eventlog.Open(context.Background(), eventlog.Config{
		Dir: dir, ArchiveDir: archive, Now: func() time.Time { return now }, SegmentAge: 24 * time.Hour, Retention: 80 * time.Hour,
	}))(t)
	t.Cleanup(func() { _ = j.Close() })
	for _, h := range week.happenings {
		day := now.Day()
		now = h.at
		events, err := j.Append(h.draft)
		if err == nil && day != now.Day() {
			j.SetPosition(events[0].Seq)
			err = j.Maintain(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if removed := contents(t, archive); len(removed) < 2 {
		t.Fatalf("retention has removed only %v", slices.Collect(maps.Keys(removed)))
	}
	return j
}

// anchors compares with anchors that agree, and with one that does not.
func anchors(t *testing.T, dir string) {
	t.Helper()
	r := must.Get(replay.Open(dir))(t)
	newest := must.Get(r.Anchor(t.Context()))(t)
	file := filepath.Join(t.TempDir(), "heads")
	for anchor, sound := range map[journal.Anchor]bool{
		newest: true, {Seq: newest.Seq - 1, Hash: newest.Hash}: false, {Seq: newest.Seq + 1, Hash: newest.Hash}: false,
	} {
		text := fmt.Sprintf("# heads\n\n%s node-1\n", anchor)
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		err := theirs(t, "--anchor", file, dir)
		check.Equal(t, (err == nil), sound, "with %s: %v", anchor, err)
	}
}

// flips changes a bit of each file, at several places. Where a worker runs, what is sealed is as it is without one.
func flips(t *testing.T, dir string, random *rand.Rand, running bool) {
	t.Helper()
	all := contents(t, dir)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(all[name]) == 0 || strings.HasSuffix(name, "-shm") || running && strings.HasSuffix(name, ".zst") {
			continue
		}
		times, expected := 3, ""
		if strings.HasSuffix(name, ".zst") || name == "head" {
			times, expected = 1, "damaged"
		}
		for n := range times {
			at := random.IntN(len(all[name]))
			if name == "head" && n == 0 {
				at = len(all[name]) - 1 // its newline, too
			}
			if strings.HasSuffix(name, ".db") && n == 0 {
				at = 32 + random.IntN(8) // where free pages are, which versions of SQLite look at differently
			}
			content := bytes.Clone(all[name])
			content[at] ^= 1
			copied := joined(t, dir)
			must.Do(t, os.WriteFile(filepath.Join(copied, name), content, 0o600))
			agree(t, fmt.Sprintf("byte %d of %s flipped", at, name), copied, expected)
		}
	}
}

// A text of the schema's own table that says of itself that it is a blob is the same text when SQLite joins it.
func TestTheOtherVerifierTakesABlobOfTheSchemaForText(t *testing.T) {
	t.Parallel()
	dir := joined(t, vectorsDir+"/journal", vectorsDir+"/archive")
	name := filepath.Join(dir, "segment-00000004.db")
	content := must.Get(os.ReadFile(name))(t)
	content[2695] ^= 1
	must.Do(t, os.WriteFile(name, content, 0o600))
	agree(t, "the type of a text in the schema", dir, "")
}

// mutations changes a journal in ways that leave each file readable.
func mutations(t *testing.T, dir string) {
	t.Helper()
	newest := slices.Max(slices.DeleteFunc(slices.Collect(maps.Keys(contents(t, dir))), func(name string) bool {
		return !strings.HasSuffix(name, ".db")
	}))
	remove := func(names ...string) func(string) error {
		return func(dir string) error {
			var errs []error
			for _, name := range names {
				errs = append(errs, os.Remove(filepath.Join(dir, name)))
			}
			return errors.Join(errs...)
		}
	}
	// behind changes the newest segment, with the triggers as they were.
	behind := func(statement string) func(string) error {
		return func(dir string) (err error) {
			db, err := sql.Open("sqlite", filepath.Join(dir, newest))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			var update, forget string
			const trigger = `SELECT sql FROM sqlite_schema WHERE name = ?`
			if err := errors.Join(db.QueryRow(trigger, "records_no_update").Scan(&update), db.QueryRow(trigger, "records_no_delete").Scan(&forget)); err != nil {
				return err
			}
			_, err = db.Exec(`DROP TRIGGER records_no_update; DROP TRIGGER records_no_delete; ` + statement + `; ` + update + `; ` + forget)
			return err
		}
	}
	for what, c := range map[string]struct {
		change   func(dir string) error
		expected string
	}{
		"nothing":                         {behind(`SELECT 1`), "sound"},
		"an inner segment is gone":        {remove("segment-00000002.zst"), "damaged"},
		"what retention took is gone":     {remove("segment-00000001.zst"), "sound"},
		"more than retention took":        {remove("segment-00000001.zst", "segment-00000002.zst", "segment-00000003.zst"), ""},
		"the newest segment is gone":      {remove(newest), "damaged"},
		"the head is gone":                {remove("head"), "damaged"},
		"a payload is another":            {behind(`UPDATE records SET payload = replace(payload, ':', ': ') WHERE seq = (SELECT max(seq) FROM records)`), "damaged"},
		"a time is another":               {behind(`UPDATE records SET time = time + 1 WHERE seq = (SELECT min(seq) FROM records)`), "damaged"},
		"the end is cut off":              {behind(`DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)`), "damaged"},
		"an event is missing":             {behind(`DELETE FROM records WHERE seq = (SELECT max(seq) - 1 FROM records)`), "damaged"},
		"an event is added":               {behind(`INSERT INTO records SELECT seq + 1, time, job, kind, payload, stdout, stderr, hash FROM records ORDER BY seq DESC LIMIT 1`), "damaged"},
		"a trigger is added":              {behind(`CREATE TRIGGER other BEFORE DELETE ON records BEGIN SELECT 1; END`), "damaged"},
		"the checkpoint is another":       {behind(`UPDATE segment SET header = CAST(header || ' ' AS BLOB)`), "damaged"},
		"the table shows what is not":     {behind(`UPDATE mirror SET seq = 1000000`), "damaged"},
		"an old note, which says nothing": {behind(`UPDATE mirror SET kept = 1000`), "sound"},
	} {
		copied := joined(t, dir)
		must.Do(t, c.change(copied), "%s", what)
		agree(t, what, copied, c.expected)
	}
}
