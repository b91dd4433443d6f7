package exec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// modes gives target a the launcher that runs its jobs, and executors to the worker.
func modes(l jobexec.Launcher, kept *pools, asked *requester) func(*jobexec.Config) {
	return func(c *jobexec.Config) {
		c.Terms = map[string]jobexec.Terms{"a": {Launcher: &l, Attempts: 3, Timeout: time.Minute}}
		if kept != nil {
			c.Pools = kept
		}
		if asked != nil {
			c.Requester = asked
		}
	}
}

var (
	forks = jobexec.Launcher{Mode: jobexec.ModeFork, Words: []string{"/bin/php", "preload.php"}, Dir: "/srv", Env: []string{"LANG=C"}, Keep: jobexec.Keep{MaxJobs: 9}}
	posts = jobexec.Launcher{
		Mode: jobexec.ModeHTTP, Words: []string{"http://h/{id}"},
		Service: jobexec.Service{Mode: jobexec.ModeHTTP, URL: "http://h/{id}", Secret: "secret"},
	}
)

// executorOf is what the newest announcement of a job says that runs it.
func (f *fixture) executorOf(id int64) (executor string) {
	f.journal.View(func(s *journal.State) { executor = s.Job(id).Executor })
	return executor
}

// A job of a target whose launcher keeps processes is started in one of those, which is told by
// itself what a launcher has in its environment; the others are started as ever.
func TestAKeptProcessIsAskedForAJob(t *testing.T) {
	t.Parallel()
	kept := &pools{}
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "b")), modes(forks, kept, nil))
	f.start()
	specs := map[int64]jobexec.Spec{}
	for range 2 {
		p := f.next()
		specs[p.spec.Job] = p.spec
		p.exit(0)
	}
	f.reach(map[int64]string{1: journal.RowDone, 2: journal.RowDone})
	want := map[int64]jobexec.Spec{
		1: {
			Mode: jobexec.ModeFork, Target: "a", Job: 1, Attempt: 1, Runner: instance, Argv: forks.Words,
			Timeout: time.Minute, KillAfter: 10 * time.Second,
		},
		2: {Target: "b", Job: 2, Attempt: 1, Runner: instance, Argv: []string{"/launcher", "--job=2"}, Env: []string{"LANG=C"}},
	}
	if diff := cmp.Diff(want, specs, cmpopts.IgnoreFields(jobexec.Spec{}, "Tell", "Token", "Vars")); diff != "" {
		t.Errorf("what was started (-want +got):\n%s", diff)
	}
	if vars := strings.Join(specs[1].Vars, " "); !strings.HasPrefix(vars, "JOBD_ATTEMPT=1 JOBD_MAX_ATTEMPTS=3 JOBD_DEADLINE=") || len(specs[2].Vars) > 0 {
		t.Errorf("told beside: %q, and %q of the process", vars, specs[2].Vars)
	}
	for id, executor := range map[int64]string{1: "fork", 2: ""} {
		for _, e := range f.events(id) {
			if p, is := e.Payload.(journal.Running); is && p.Executor != executor {
				t.Errorf("job %d is announced for %q, want %q", id, p.Executor, executor)
			}
		}
	}
	wanted := []jobexec.Pool{{Target: "a", Mode: jobexec.ModeFork, Argv: forks.Words, Dir: "/srv", Env: forks.Env, Slots: 2, Keep: forks.Keep}}
	if diff := cmp.Diff(wanted, kept.wanted[0]); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
}

// Each change of targets, launchers or slots is told to the pools and the requester.
func TestExecutorsAreToldWhatThereIsToBe(t *testing.T) {
	t.Parallel()
	kept, asked := &pools{}, newRequester()
	f := newFixture(t, newTable(), modes(forks, kept, asked))
	f.start()
	check := func(what string, slots map[string]int, services ...string) {
		t.Helper()
		if diff := cmp.Diff(slots, kept.slots()); diff != "" {
			t.Errorf("%s: slots (-want +got):\n%s", what, diff)
		}
		for _, name := range services {
			if asked.services[name] != posts.Service {
				t.Errorf("%s: services %v", what, asked.services)
			}
		}
		if len(asked.services) != len(services) {
			t.Errorf("%s: services %v, want %v", what, asked.services, services)
		}
	}
	check("at the start", map[string]int{"a": 2})
	must.Do(t, f.worker.SetConcurrency("a", 5, "me"))
	check("with other slots", map[string]int{"a": 5})
	f.worker.SetTerms(forks, nil, nil, false)
	check("with a common launcher", map[string]int{"a": 5, "b": 1})
	must.Do(t, f.worker.SetTargets(map[string]int{"a": 5, "c": 3}, "me"))
	check("with other targets", map[string]int{"a": 5, "c": 3})
	f.worker.SetTerms(forks, map[string]jobexec.Terms{"c": {Launcher: &posts}}, nil, false)
	check("with other terms", map[string]int{"a": 5}, "c")
	if len(kept.recycled) != 2 || len(kept.recycled[1]) != 1 || kept.recycled[1][0] != "a" {
		t.Errorf("with a configuration that is read again, replaced for %v", kept.recycled)
	}
	if err := f.worker.Recycle([]string{"a", "c", "d"}, "me"); err == nil || !strings.Contains(err.Error(), "target 'c' has no pool processes") ||
		!strings.Contains(err.Error(), "target 'd' not found") || len(kept.recycled) != 2 {
		t.Errorf("%v; recycled %v", err, kept.recycled)
	}
	if err := f.worker.Recycle(nil, "me"); err != nil || len(kept.recycled) != 3 || kept.recycled[2][0] != "a" {
		t.Errorf("%v; recycled %v", err, kept.recycled)
	}
}

// A worker that hands over waits for requests, which nobody can take over.
func TestAHandoverWaitsForRequests(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "b")), func(c *jobexec.Config) {
		modes(posts, nil, asked)(c)
		c.Handover = true
	})
	f.start()
	p := asked.asks(t)
	p.connects()
	p.sends(t)
	f.next()
	f.wait("both run", func(s *journal.State) bool { return s.Job(2).Status == journal.StatusRunning })
	f.stop()
	f.until("it stops", func(s jobexec.Status) bool { return s.Targets["a"].Why == "the worker stops" })
	select {
	case err := <-f.ended:
		t.Fatalf("it ended while a request was under way: %v", err)
	default:
	}
	p.ends(answered("ok"), nil)
	f.gone()
	f.journal.View(func(s *journal.State) {
		if s.Job(1).Status != journal.StatusNone || s.Job(2).Status != journal.StatusRunning {
			t.Errorf("the request is %s, the process %s", s.Job(1).Status, s.Job(2).Status)
		}
	})
}

// A job that was announced for one executor is announced anew where its target has another one when
// it starts.
func TestAJobIsStartedByTheExecutorThatWasAnnounced(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), func(c *jobexec.Config) { c.Requester = asked })
	f.start()
	release := f.hold(f.next(), 2)
	if got := f.executorOf(2); got != "" {
		t.Fatalf("announced for %q", got)
	}
	f.worker.SetTerms(posts, nil, nil, false)
	close(release)
	p := asked.asks(t)
	if got := f.executorOf(2); got != "http" {
		t.Errorf("started as a request, announced for %q", got)
	}
	p.connects()
	p.sends(t)
	p.ends(answered("ok"), nil)
	f.reach(map[int64]string{1: journal.RowDone, 2: journal.RowDone})
	if got, want := words(f.story(2)), "accepted running running started done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
}

// A target whose own launcher can't be executed burns no row: nothing more is claimed for it, status says
// why, until the launcher is there. Others go on.
func TestATargetsOwnLauncherThatIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "a"), waiting(4, "a"), waiting(5, "b")), nil)
	path := filepath.Join(t.TempDir(), "own")
	why := "its launcher can't be executed: " + path + ": no such file or directory"
	missing := &choosyRunner{runner: f.runner}
	missing.refuses.Store(true)
	f.build(func(c *jobexec.Config) {
		c.Runner = missing
		c.Terms = map[string]jobexec.Terms{"a": {Launcher: &jobexec.Launcher{Words: []string{path, "{id}"}}}}
	})
	f.start()
	f.next().exit(0) // of b
	f.until("status says why", func(s jobexec.Status) bool {
		return s.Targets["a"].Why == why && s.Launcher == nil && len(s.Executors) == 1 && s.Executors[0].Unready == why
	})
	f.until("no job is left", func(s jobexec.Status) bool { return s.Targets["a"].Length == 0 })
	missing.refuses.Store(false)
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	for range 4 {
		f.next().exit(0)
	}
	f.reach(map[int64]string{1: journal.RowDone, 2: journal.RowDone, 3: journal.RowDone, 4: journal.RowDone, 5: journal.RowDone})
	f.until("status says so", func(s jobexec.Status) bool { return s.Targets["a"].Why == "" && len(s.Executors) == 0 })
}

// choosyRunner finds no launcher of target a.
type choosyRunner struct {
	*runner
	refuses atomic.Bool
}

func (r *choosyRunner) Start(spec jobexec.Spec) (jobexec.Process, error) {
	if spec.Target == "a" && r.refuses.Load() {
		return nil, &jobexec.NotStartedError{Why: spec.Argv[0] + ": no such file or directory"}
	}
	return r.runner.Start(spec)
}

// Regression: the mirror shows rows in order, and one that somebody held delayed the starts of all
// that came after it.
func TestALockedRowHoldsUpOnlyItsOwnStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "a"), waiting(4, "a")), nil)
	held := make(chan struct{})
	f.mirror.quarantined = map[int64]chan struct{}{3: held}
	f.start()
	first, second := f.next(), f.next()
	f.claimed(4)
	first.exit(0)
	f.wait("the locked one is announced", func(s *journal.State) bool { return s.Job(3).Status == journal.StatusStarting })
	second.exit(0)
	if p := f.next(); p.spec.Job != 4 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
	f.none()
	close(held)
	if p := f.next(); p.spec.Job != 3 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
}

// A client's answer waits for its own row, and no longer than a second.
func TestAnAnswerWaitsForItsOwnRowOnly(t *testing.T) {
	t.Parallel()
	const tries = 10
	var rows []journal.Row
	for id := range int64(tries) {
		rows = append(rows, manual(id+1, "a"))
	}
	f := newFixture(t, newTable(rows...), nil)
	f.mirror.quarantined = map[int64]chan struct{}{99: make(chan struct{}), 0: make(chan struct{})}
	f.runner.instant = true
	f.start()
	for id := int64(1); ; id++ {
		began := time.Now()
		answer, err := f.worker.RunManual(t.Context(), []int64{id}, "me")
		if err != nil || answer.Jobs[id].Result != "ok" {
			t.Fatalf("told %+v, %v", answer, err)
		}
		took := time.Since(began)
		if took < time.Second { // on a busy machine not each of them
			break
		}
		if id == tries {
			t.Fatalf("%d answers took long, the last %s: they waited for another row", tries, took)
		}
	}
}

// A stop ends a worker that can start nothing, and leaves nothing behind.
func TestStopWhileNothingCanBeStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "b")), nil)
	f.runner.refuse = &jobexec.NotStartedError{Why: "start /launcher: exec format error"}
	f.start()
	f.until("status tells", func(s jobexec.Status) bool { return s.Launcher != nil })
	f.stop()
	f.gone()
	f.reach(map[int64]string{1: journal.RowWaiting, 2: journal.RowWaiting})
}

// No shell reads the launcher: what only a shell understands is not found, and told without the value of a
// variable, which may be a password.
func TestWordsOfAShellAreNoCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "A=b"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "A=b/run"), []byte("#!/bin/sh\n"), 0o700))
	for command, want := range map[string]string{
		"cd":                "cd: not found in PATH",
		"APP_ENV=hunter2":   "APP_ENV=…: not found in PATH",
		"APP_DIR=/srv/site": "APP_DIR=…: not found in PATH",
		"./A=b/run":         "",
		"sh":                "",
	} {
		l := jobexec.Launcher{Words: []string{command, "{id}"}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}}
		got := ""
		if err := l.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// Regression: the worker id was a hash of the name; two names, or the default name twice on one host,
// could have the same, and each worker took the other's rows for its own lost ones.
func TestAMarkThatIsTakenIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	ours := tokenPrefix(t)[1:]
	f := newFixture(t, newTable(waiting(1, "a"), journal.Row{Job: 2, Target: "a", Status: journal.RowRunning, Owner: "@" + ours + "aaaaa"}), nil)
	f.table.holders["mark:"+ours] = "another worker"
	f.start()
	p := f.next()
	var token, known string
	f.journal.View(func(s *journal.State) { token, known = s.Job(1).Token, s.Mark })
	if len(token) != 10 || token[1:5] != known || known == ours {
		t.Errorf("claimed as %s, the journal has mark %q; %q is taken", token, known, ours)
	}
	p.exit(0)
	f.wait("it is done", ended(1))
	if got := f.story(2); len(got) > 0 {
		t.Errorf("a row of the other worker was touched: %v", got)
	}
}

// A worker whose name is taken claims nothing, says so, and tries again; what is claimed already
// goes on.
func TestNothingIsClaimedUnderATakenName(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), manual(2, "a")), nil)
	f.table.holders["name:node-1"] = "connection 7 from 10.0.0.5"
	f.start()
	f.until("it says why", func(s jobexec.Status) bool { return strings.Contains(s.Targets["a"].Why, "10.0.0.5") })
	var taken *jobexec.NameTakenError
	if err := f.worker.Identify(t.Context()); !errors.As(err, &taken) || taken.Name != "node-1" || taken.Holder != "connection 7 from 10.0.0.5" {
		t.Errorf("Identify: %v", err)
	}
	f.none()
	f.table.change(func() {
		if f.table.claims > 0 {
			t.Errorf("%d claims", f.table.claims)
		}
		clear(f.table.holders)
	})
	f.next().exit(0)
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Targets["a"].Why == "" })
}

// The holder of this journal's name and worker id is this worker's own former connection: the worker
// waits for its end.
func TestAFormerConnectionIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	must.Get(f.journal.Append(journal.Draft{Payload: journal.Marked{Mark: "qqqq"}}))(t)
	f.table.holders["name:node-1"], f.table.holders["mark:qqqq"] = "connection 7", "connection 7"
	if err := f.worker.Identify(t.Context()); !jobexec.IsFormer(err) {
		t.Errorf("Identify: %v", err)
	}
	f.start()
	f.until("it says why", func(s jobexec.Status) bool { return strings.Contains(s.Targets["a"].Why, "connection 7") })
	f.table.change(func() { clear(f.table.holders) })
	p := f.next()
	f.journal.View(func(s *journal.State) {
		if token := s.Job(1).Token; s.Mark != "qqqq" || !strings.HasPrefix(token, "@qqqq") {
			t.Errorf("mark %q, claimed as %s", s.Mark, token)
		}
	})
	p.exit(0)
	f.wait("it is done", ended(1))
	if got := words(f.story(0)); got != "marked opened" { // the worker id lasts as long as the journal, and is journalled once
		t.Errorf("the worker's story: %q", got)
	}
}

// Regression: a worker that could not ask for its name when it started, and found out later that
