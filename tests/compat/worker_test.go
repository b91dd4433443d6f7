package compat

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// The worker of this version starts where one of a former version was killed, with that one's
// configuration, journal and table: what was under way gets its end, what waited runs once, new
// jobs run, and the journal verifies from its first event to its last.
func TestAWorkerGoesOnFromAFormerVersion(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		if v.refused != "" {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := v.copy(t)
			sameLog(t, v, s)
			verified(t, s)
			worker := s.start(t, harness.Program(t, "jobd"))
			s.await(t, unended, "status = 'done' AND result = 'fail' AND return_code IS NULL AND stderr LIKE '%outcome unknown%'")
			s.await(t, queued, "status = 'done' AND result = 'ok'")
			s.insert(t, 100, "a", "waiting")
			s.insert(t, 101, "c", "manual")
			ask(t, worker, "poll", nil)
			s.await(t, 100, "status = 'done' AND result = 'ok'")
			if refused := ask(t, worker, "run-manual", map[string]any{"ids": []int64{101}}); refused != "" {
				t.Errorf("run-manual is refused: %s", refused)
			}
			s.await(t, 101, "status = 'done' AND result = 'ok'")
			if v.plans { // both were due while there was no worker
				s.await(t, hourly, "status = 'delayed' AND result = 'ok' AND run_at > unixepoch()")
				s.await(t, repeated, "status = 'done' AND result = 'fail' AND attempts = 2")
			}
			worker.Signal(t, syscall.SIGTERM)
			if code := worker.ExitCode(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			v.startsAreRight(t, s)
			sameLog(t, v, s)
			verified(t, s)
		})
	}
}

// startsAreRight compares how often each job was started, by both workers.
func (v version) startsAreRight(t *testing.T, s *site) {
	t.Helper()
	want := map[int64]int{fine: 1, failing: 1, byHand: 1, unended: 1, queued: 1, 100: 1, 101: 1}
	if v.cancels {
		want[stopped], want[again] = 1, 2
	}
	if v.plans {
		want[repeated] = 2
		if s.starts(t, hourly) == 0 { // it is more than one where the hour is full meanwhile
			t.Errorf("job %d was not started", hourly)
		}
	}
	for id, times := range want {
		if got := s.starts(t, id); got != times {
			t.Errorf("job %d was started %d times, not %d", id, got, times)
		}
	}
}

// What a version wrote that is not read any more is refused, by the worker, by --check and by
// jobctl, with words that say what is to be done; and it is left as it is.
func TestAJournalOfBeforeTheFirstReleaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		if v.refused == "" {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := v.copy(t)
			before := listing(t, s.dir)
			worker := harness.LaunchBinary(t, harness.Program(t, "jobd"), filepath.Join(s.dir, "jobd.conf"), "127.0.0.1:"+s.port)
			if code := worker.ExitCode(t); code != 1 || !strings.Contains(worker.Output(), v.refused) {
				t.Errorf("exit code %d, want 1, and %q", code, v.refused)
			}
			check := exec.Command(harness.Program(t, "jobd"), "--config", filepath.Join(s.dir, "jobd.conf"), "--check")
			if out, err := check.CombinedOutput(); err == nil || !strings.Contains(string(out), v.refused) {
				t.Errorf("--check: %v, and not %q:\n%s", err, v.refused, out)
			}
			if out, err := s.jobctl(t, "journal", "log"); err == nil || !strings.Contains(out, v.refused) {
				t.Errorf("jobctl journal log: %v, and not %q:\n%s", err, v.refused, out)
			}
			if after := listing(t, s.dir); after != before {
				t.Errorf("the folder was\n%s and is\n%s", before, after)
			}
		})
	}
}

// copy is a site with a copy of the version's fixture.
func (v version) copy(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, os.DirFS(v.folder())))
	if err := os.Chmod(filepath.Join(dir, "journal"), 0o700); err != nil { // git keeps no such mode
		t.Fatal(err)
	}
	text := must.Get(os.ReadFile(filepath.Join(dir, "jobd.conf")))(t)
	s := newSite(t, dir)
	s.configure(t, string(text))
	return s
}

// event is what any version tells of an event.
type event struct {
	Seq     uint64
	Job     int64
	Kind    string
	Payload json.RawMessage
	Hash    string // over all before it, and over its output
}

// sameLog fails where the journal does not begin with the events that the version's own jobctl has
// read of it.
func sameLog(t *testing.T, v version, s *site) {
	t.Helper()
	theirs := must.Get(os.ReadFile(filepath.Join(v.folder(), "log.jsonl")))(t)
	ours, err := s.jobctl(t, "--output", "json", "journal", "log")
	if err != nil {
		t.Fatalf("jobctl journal log: %v: %s", err, ours)
	}
	want, got := events(t, string(theirs)), events(t, ours)
	if len(want) < 12 || len(got) < len(want) {
		t.Fatalf("%d events are read, %d were written", len(got), len(want))
	}
	for i, w := range want {
		if g := got[i]; g.Seq != w.Seq || g.Job != w.Job || g.Kind != w.Kind || g.Hash != w.Hash || string(g.Payload) != string(w.Payload) {
			t.Errorf("event %d is read as %+v, the version that wrote it read %+v", w.Seq, g, w)
		}
	}
}

func events(t *testing.T, lines string) (read []event) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		read = append(read, e)
	}
	return read
}

// verified fails where jobctl, or the verifier that shares no code with it, finds the journal
// damaged.
func verified(t *testing.T, s *site) {
	t.Helper()
	if out, err := s.jobctl(t, "journal", "verify"); err != nil {
		t.Errorf("jobctl journal verify: %v: %s", err, out)
	}
	verifier := exec.Command("python3", filepath.Join(harness.Top(), "tools", "verify.py"), filepath.Join(s.dir, "journal"))
	if out, err := verifier.CombinedOutput(); err != nil {
		t.Errorf("verify.py: %v: %s", err, out)
	}
}

// jobctl runs a command of this version's on the site's journal.
func (s *site) jobctl(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	args = append(append([]string{"--config", ""}, args...), "--journal", filepath.Join(s.dir, "journal"))
	out, err := exec.CommandContext(t.Context(), harness.Program(t, "jobctl"), args...).CombinedOutput()
	return string(out), err
}

// listing is the files of a folder with their contents, but for what any start leaves.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	must.Do(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "lock" || strings.HasSuffix(path, "-shm") {
			return err
		}
		content, err := os.ReadFile(path)
		text.WriteString(path + "\n" + string(content) + "\n")
		return err
	}))
	return text.String()
}
