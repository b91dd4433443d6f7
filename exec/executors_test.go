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
	if err := f.worker.Recycle([]string{"a", "c", "d"}, "me"); err == nil || !strings.Contains(err.Error(), "no processes are kept for target 'c'") ||
		!strings.Contains(err.Error(), "target 'd' not found") || len(kept.recycled) != 2 {
		t.Errorf("%v; recycled %v", err, kept.recycled)
	}
	if err := f.worker.Recycle(nil, "me"); err != nil || len(kept.recycled) != 3 || kept.recycled[2][0] != "a" {
		t.Errorf("%v; recycled %v", err, kept.recycled)
	}
}

// A target of which no process gets ready claims nothing more, gives back what it has, burns no row,
// and tells why; the others go on.
func TestATargetWithoutAReadyProcessWaits(t *testing.T) {
	t.Parallel()
	kept := &pools{}
	f := newFixture(t, newTable(waiting(1, "a"), manual(9, "a")), modes(forks, kept, nil))
	f.start()
	running := f.next()
	f.runner.refuseAll(&jobexec.NotStartedError{Why: "it ends at once"})
	for id := int64(2); id <= 3; id++ {
		f.table.insert(waiting(id, "a"))
	}
	must.Do(t, f.worker.Poll(nil))
	f.wait("three are claimed", func(s *journal.State) bool { return len(s.Jobs) == 3 })
	f.worker.SetReady("a", jobexec.ModePool, "another one's trouble")
	f.worker.SetReady("a", jobexec.ModeFork, "it ends at once")
	f.until("status tells", func(s jobexec.Status) bool {
		a := s.Targets["a"]
		return a.Why == "no process gets ready that could run its jobs: it ends at once" && a.Length == 1 && s.Targets["b"].Why == "" && s.Launcher == nil
	})
	if s := f.worker.ExplainTargets([]string{"a"})["a"]; s.Kind != jobexec.HinderedExecutor || s.Since.IsZero() {
		t.Errorf("explained as %+v", s.Hindrance)
	}
	answer, err := f.worker.RunManual(t.Context(), []int64{9}, "me")
	if want := "job 9 was not run: no process gets ready that could run its jobs: it ends at once"; err != nil || answer.Errors[9] != want {
		t.Errorf("answer %+v, %v; want %q", answer, err, want)
	}
	f.reach(map[int64]string{2: journal.RowWaiting, 3: journal.RowWaiting, 9: journal.RowManual})
	f.table.insert(waiting(4, "b"))
	f.runner.refuseAll(nil)
	must.Do(t, f.worker.Poll(nil))
	if p := f.next(); p.spec.Job != 4 {
		t.Errorf("job %d was started", p.spec.Job)
	}
	f.worker.SetTerms(posts, map[string]jobexec.Terms{"a": {Launcher: &forks}}, nil, false) // read again
	f.none()
	running.exit(0)
	f.worker.SetReady("a", jobexec.ModeFork, "")
	for range 2 {
		f.next().exit(0)
	}
	f.reach(map[int64]string{1: journal.RowDone, 2: journal.RowDone, 3: journal.RowDone})
	for id := int64(2); id <= 3; id++ {
		if story := f.story(id); count(story, journal.KindDone) != 1 || count(story, journal.KindReleased) != 1 {
			t.Errorf("job %d: %v", id, story)
		}
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
	must.Do(t, <-f.ended)
	f.ended <- nil
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

// The same job is called back while its row is locked.
func TestAJobWhoseRowIsLockedIsGivenBackByAPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.mirror.quarantined = map[int64]chan struct{}{2: make(chan struct{})}
	f.start()
	first := f.next()
	f.claimed(2)
	first.exit(0)
	f.wait("it is announced", func(s *journal.State) bool { return s.Job(2).Status == journal.StatusStarting })
	if err := f.worker.Pause(nil, "me"); err != nil {
		t.Fatal(err)
	}
	f.wait("it is given back", func(s *journal.State) bool { return s.Job(2).Status.Ended() })
	if got := words(f.story(2)); got != "accepted running released" {
		t.Errorf("story %q", got)
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

// soundLauncher is a launcher in which looking finds nothing wrong.
func soundLauncher(c *jobexec.Config) {
	c.Launcher = jobexec.Launcher{Words: []string{"/bin/true", "{id}"}}
}

// refuseAll has the system refuse all starts, or none.
func (r *runner) refuseAll(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = why
}

// newSound makes a worker whose launcher can be started.
func newSound(t *testing.T, table *table, change func(*jobexec.Config)) *fixture {
	t.Helper()
	return newFixture(t, table, func(c *jobexec.Config) {
		soundLauncher(c)
		if change != nil {
			change(c)
		}
	})
}

// noProgram is what the system says of something that is no program, which only an execution tells.
func noProgram() error { return &jobexec.NotStartedError{Why: "start /bin/true: exec format error"} }

// Regression: a launcher that could not be executed failed each job, as fast as rows could be
// claimed.
func TestALauncherThatCannotBeExecutedFailsNothing(t *testing.T) {
	t.Parallel()
	tab := newTable(manual(100, "a"))
	for id := int64(1); id <= 50; id++ {
		tab.insert(waiting(id, "a"))
	}
	f := newSound(t, tab, nil)
	f.runner.refuseAll(noProgram())
	f.start()
	f.until("status tells", func(s jobexec.Status) bool {
		return s.Launcher != nil && strings.Contains(s.Targets["b"].Why, "exec format error") && s.Targets["a"].Length == 0
	})
	answer, err := f.worker.RunManual(t.Context(), []int64{100}, "me")
	if want := "job 100 was not run: the launcher can't be executed: start /bin/true: exec format error"; err != nil || answer.Errors[100] != want {
		t.Errorf("answer %+v, %v; want %q", answer, err, want)
	}
	for range 50 {
		must.Do(t, f.worker.Poll(nil))
	}
	f.reach(map[int64]string{1: journal.RowWaiting, 2: journal.RowWaiting, 50: journal.RowWaiting, 100: journal.RowManual})
	f.runner.refuseAll(nil)
	f.runner.mu.Lock()
	f.runner.instant = true
	f.runner.mu.Unlock()
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Launcher == nil })
	done := map[int64]string{}
	for id := int64(1); id <= 50; id++ {
		done[id] = journal.RowDone
	}
	f.reach(done)
	refused := 0
	for id := int64(1); id <= 50; id++ {
		if done := f.outcome(id); done.Result != "ok" {
			t.Errorf("job %d: %+v", id, done)
		}
		refused += count(f.story(id), journal.KindReleased)
	}
	if refused > 12 {
		t.Errorf("%d claims were given back: more than the first, and some that were to tell", refused)
	}
}

// What is missing for a moment is waited for, and nobody hears of it.
func TestAStartForWhichSomethingIsMissingIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), soundLauncher)
	f.runner.once = &jobexec.NotStartedError{Why: "start /bin/true: resource temporarily unavailable", Short: true}
	f.start()
	f.next().exit(0)
	f.wait("the job is at its end", ended(1))
	if got, want := words(f.story(1)), "accepted running running started done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
}

// Where it lasts, it is told, and what was claimed is given back.
func TestAShortageThatLastsIsTold(t *testing.T) {
	t.Parallel()
	f := newSound(t, newTable(waiting(1, "a"), waiting(2, "b")), nil)
	f.runner.refuseAll(&jobexec.NotStartedError{Why: "start /bin/true: cannot allocate memory", Short: true})
	f.start()
	f.until("status tells", func(s jobexec.Status) bool {
		return s.Launcher != nil && s.Launcher.Why == "no job can be started for now: start /bin/true: cannot allocate memory"
	})
	f.reach(map[int64]string{1: journal.RowWaiting, 2: journal.RowWaiting})
	f.runner.refuseAll(nil)
	f.next().exit(0)
	f.next().exit(0)
	f.reach(map[int64]string{1: journal.RowDone, 2: journal.RowDone})
}

// A second attempt can't be given back, because the journal says that its job ran. The next start
// takes it up.
func TestASecondAttemptThatCannotBeStartedStays(t *testing.T) {
	t.Parallel()
	f := newSound(t, newTable(waiting(1, "a"), waiting(2, "a")), func(c *jobexec.Config) { c.Requeue = true })
	f.start()
	first := f.next()
	f.next()
	f.wait("it runs", func(s *journal.State) bool { return s.Job(first.spec.Job).Status == journal.StatusRunning })
	f.runner.refuseAll(noProgram())
	first.known = false
	first.exit(1)
	f.until("status tells", func(s jobexec.Status) bool { return s.Launcher != nil && s.Targets["a"].Length == 2 })
	if got, want := words(f.story(first.spec.Job)), "accepted running started requeued running"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
	f.runner.refuseAll(nil)
	if again := f.next(); again.spec.Attempt != 2 || again.spec.Job != first.spec.Job {
		t.Errorf("started %+v, want the second attempt of job %d", again.spec, first.spec.Job)
	}
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Launcher == nil })
}

// Where looking at the launcher shows what is wrong, looking shows that it is right again, and no
// job has to tell.
func TestALauncherThatIsBackIsSeen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "launcher")
	f := newSound(t, newTable(waiting(1, "a")), func(c *jobexec.Config) { c.Launcher = jobexec.Launcher{Words: []string{path}} })
	f.runner.refuseAll(&jobexec.NotStartedError{Why: "start " + path + ": no such file or directory"})
	f.start()
	f.until("status tells what looking shows", func(s jobexec.Status) bool {
		return s.Launcher != nil && s.Launcher.Why == "the launcher can't be executed: "+path+": no such file or directory"
	})
	f.reach(map[int64]string{1: journal.RowWaiting})
	f.table.change(func() { delete(f.table.rows, 1) })
	f.runner.refuseAll(nil)
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Launcher == nil })
}

// A stop ends a worker that can start nothing, and leaves nothing behind.
func TestStopWhileNothingCanBeStarted(t *testing.T) {
	t.Parallel()
	f := newSound(t, newTable(waiting(1, "a"), waiting(2, "b")), nil)
	f.runner.refuseAll(noProgram())
	f.start()
	f.until("status tells", func(s jobexec.Status) bool { return s.Launcher != nil })
	f.stop()
	must.Do(t, <-f.ended)
	f.ended <- nil
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

// The worker id lasts as long as the journal, and is journalled once.
func TestTheJournalsMarkIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	must.Get(f.journal.Append(journal.Draft{Payload: journal.Marked{Mark: "qqqq"}}))(t)
	f.start()
	p := f.next()
	f.journal.View(func(s *journal.State) {
		if token := s.Job(1).Token; !strings.HasPrefix(token, "@qqqq") {
			t.Errorf("claimed as %s", token)
		}
	})
	p.exit(0)
	f.wait("it is done", ended(1))
	if got := words(f.story(0)); got != "marked opened" {
		t.Errorf("the worker's story: %q", got)
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
	f.next().exit(0)
	f.journal.View(func(s *journal.State) {
		if s.Mark != "qqqq" {
			t.Errorf("mark %q", s.Mark)
		}
	})
}

// Regression: a worker that could not ask for its name when it started, and found out later that

// Nobody saw how a process ended that outlived its runner, but how long it ran is known, and
// journalled.
func TestHowLongAnAdoptedJobRanIsJournalled(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	f := newFixture(t, newTable(journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: accepted.Token}), nil)
	left(t, f.journal, accepted, journal.Running{Attempt: 1, Runner: "runner-0"}, journal.Started{Pid: 4711, StartTime: 1, BootID: "boot"})
	old := &process{pid: 4711, ended: make(chan struct{}), signals: make(chan int, 1), done: journal.Done{Elapsed: 3_000_000}}
	f.runner.alive[4711] = old
	f.start()
	close(old.ended)
	f.wait("the job is at its end", ended(1))
	done := journal.Done{}
	for seq := uint64(3); done.Result == ""; seq++ {
		events := must.Get(f.journal.Next(t.Context(), seq, 1))(t)
		done, _ = events[0].Payload.(journal.Done)
	}
	if done.Elapsed != 3_000_000 || !strings.HasPrefix(done.Reason, "outcome unknown") {
		t.Errorf("%+v", done)
	}
}
