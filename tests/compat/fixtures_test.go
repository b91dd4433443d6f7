package compat

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

var update = flag.Bool("update", false, "make the fixtures that are missing, with programs built from the history")

// The configuration of all versions' workers.
const configuration = `; the worker of this fixture
host = 127.0.0.1
port = @PORT@
name = worker
log_level_console = info

store = sqlite
sqlite_path = @DIR@/jobs.db
journal_dir = @DIR@/journal
poll_interval = 0
prefetch = 1
launcher = /bin/sh @DIR@/launcher.sh {id}

[targets]
a = 2
b = 1
c = 1
`

// Each version's fixture is there. With -update the missing ones are made.
func TestFixtures(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			switch _, err := os.Stat(v.folder()); {
			case err == nil:
			case *update:
				v.make(t)
			default:
				t.Errorf("%v: make it with -update", err)
			}
		})
	}
}

func (v version) folder() string { return filepath.Join(fixtures, "worker", v.name) }

// make has a worker of the version run what it can, kills it and its jobs as a loss of power would,
// and keeps what is left then. What its own jobctl reads of the journal is kept beside it.
func (v version) make(t *testing.T) {
	t.Helper()
	bin := build(t, v.commit)
	s := newSite(t, t.TempDir())
	text := configuration
	if v.rolls {
		text = strings.Replace(text, "\n[targets]", "journal_segment_age = 1s\n\n[targets]", 1)
	}
	if v.config != "" {
		at := strings.Index(v.config, "\n[") // what stands before the first section belongs to the top
		text = strings.Replace(text, "\n[targets]", v.config[:at]+"\n\n[targets]", 1) + v.config[at:]
	}
	s.configure(t, text)
	worker := s.start(t, filepath.Join(bin, "jobd"))
	v.work(t, s, worker)
	worker.Crash(t)
	if err := s.db.Close(); err != nil { // the last one moves what is in the table's log into its file
		t.Fatal(err)
	}

	read := exec.Command(filepath.Join(bin, "jobctl"), "--config", "", "--output", "json", "journal", "log", "--journal", filepath.Join(s.dir, "journal"))
	log := must.Get(read.Output())(t)
	v.clean(t, s.dir)
	for name, content := range map[string][]byte{"jobd.conf": []byte(text), "log.jsonl": log} {
		must.Do(t, os.WriteFile(filepath.Join(s.dir, name), content, 0o644))
	}
	must.Do(t, os.CopyFS(v.folder(), os.DirFS(s.dir)))
}

// clean removes what says nothing of the history, or is not the version's; not all versions have
// all of it.
func (v version) clean(t *testing.T, dir string) {
	t.Helper()
	names := []string{
		"journal/lock", "journal/runner.sock", "journal/runner.log", "journal/reserve",
		"jobs.db-jobd", "launcher.sh", "mended",
	}
	indexes, err := filepath.Glob(filepath.Join(dir, "journal", "*-shm")) // of nothing that is on the disk
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range indexes {
		names = append(names, "journal/"+filepath.Base(name))
	}
	for _, name := range names {
		must.Do(t, os.RemoveAll(filepath.Join(dir, name)))
	}
}

// work is what a fixture's worker has done when it is killed.
func (v version) work(t *testing.T, s *site, worker *harness.Daemon) {
	t.Helper()
	poll := func() { ask(t, worker, "poll", nil) }
	s.insert(t, fine, "a", "waiting")
	s.insert(t, byHand, "a", "manual")
	poll()
	s.await(t, fine, "status = 'done' AND result = 'ok'")
	s.insert(t, failing, "a", "waiting")
	poll()
	s.await(t, failing, "status = 'done' AND result = 'fail'")
	ask(t, worker, "run-manual", map[string]any{"ids": []int64{byHand, unheard}})
	s.await(t, byHand, "status = 'done' AND result = 'ok'")
	if v.cancels {
		s.insert(t, stopped, "a", "waiting")
		s.insert(t, again, "a", "waiting")
		poll()
		s.await(t, again, "status = 'done' AND result = 'fail'")
		s.await(t, stopped, "status = 'running'")
		ask(t, worker, "cancel", map[string]any{"ids": []int64{stopped}})
		s.await(t, stopped, "status = 'done' AND sig = 'SIGTERM'")
		harness.Touch(t, filepath.Join(s.dir, "mended"))
		ask(t, worker, "retry", map[string]any{"ids": []int64{again}})
		s.await(t, again, "status = 'done' AND result = 'ok'")
	}
	if v.plans {
		soon := time.Now().Add(time.Minute).Format("hourly :04") // due when the fixture is used
		s.exec(t, "INSERT INTO jobs (id, target, time_created, status, schedule) VALUES (?, 'a', unixepoch(), 'delayed', ?)", hourly, soon)
		s.insert(t, repeated, "c", "waiting")
		poll()
		s.await(t, hourly, "status = 'delayed' AND run_at > 0")
		s.await(t, repeated, "status = 'delayed' AND attempts = 1")
	}
	s.insert(t, unended, "b", "waiting")
	s.insert(t, queued, "b", "waiting")
	poll()
	harness.Until(t, func() string {
		if s.starts(t, unended) != 1 {
			return "the job that does not end was not started"
		}
		return ""
	})
	s.await(t, unended, "status = 'running'")
	s.await(t, queued, "status = 'accepted'")
}

// build builds the worker and the tool of a former version.
func build(t *testing.T, commit string) (bin string) {
	t.Helper()
	tree, err := exec.Command("git", "-C", harness.Top(), "archive", commit).Output()
	if err != nil {
		t.Fatalf("the history has no %s: %v", commit, err)
	}
	dir := t.TempDir()
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(tree)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v: %s", commit, err, out)
	}
	bin = filepath.Join(dir, "bin")
	made := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", bin+"/", "./cmd/jobd", "./cmd/jobctl")
	made.Dir, made.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", commit, err, out)
	}
	return bin
}
