package exec_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	jobexec "jobd/exec"
	"jobd/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ended(id int64) func(*journal.State) bool {
	return func(s *journal.State) bool { return s.Job(id).Status.Ended() }
}

func TestAJobGoesFromClaimToDone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(7, "a")), nil)
	f.start()
	p := f.next()
	want := jobexec.Spec{Job: 7, Attempt: 1, Argv: []string{"/launcher", "--job=7"}, Env: []string{"LANG=C"}}
	if diff := cmp.Diff(want, p.spec); diff != "" {
		t.Errorf("what was started (-want +got):\n%s", diff)
	}
	p.exit(0)
	f.wait("job is done", func(s *journal.State) bool { return len(s.Jobs) == 0 && s.Seq > 4 })
	story := []journal.Kind{journal.KindAccepted, journal.KindRunning, journal.KindStarted, journal.KindDone}
	if diff := cmp.Diff(story, f.story(7)); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

// A short job costs one append at its end, which tells all of its story and announces
// the job that follows in its slot.
func TestASlotPassesOnInOneAppend(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var appends [][]journal.Kind
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.build(func(c *jobexec.Config) {
		c.Recorder = &brokenJournal{f.journal, func(drafts []journal.Draft) error {
			var kinds []journal.Kind
			for _, d := range drafts {
				kinds = append(kinds, d.Payload.Kind())
			}
			mu.Lock()
			defer mu.Unlock()
			appends = append(appends, kinds)
			return nil
		}}
	})
	f.runner.instant = true
	f.start()
	f.wait("both are done", func(s *journal.State) bool { return s.Seq > 6 && len(s.Jobs) == 0 })
	mu.Lock()
	defer mu.Unlock()
	want := []journal.Kind{journal.KindStarted, journal.KindDone, journal.KindRunning}
	if !slices.ContainsFunc(appends, func(kinds []journal.Kind) bool { return slices.Equal(kinds, want) }) {
		t.Errorf("appends: %v, want one of %v", appends, want)
	}
}

// The row says running before the process is there; a signal that comes in between waits for it.
func TestASignalToAJobThatIsJustStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	f.wait("running is journalled", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusStarting })
	if !f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
		t.Error("the row says running, but the signal was not delivered")
	}
	f.next().exit(1)
	f.wait("job is done", ended(1))
	if got, want := words(f.story(1)), "accepted running started signal done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
}

func TestAJobIsStartedOnlyWhenItsRowSaysRunning(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	held := make(chan struct{})
	f.mirror.held = held
	f.start()
	f.wait("running is journalled", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusStarting })
	f.none()
	close(held)
	f.next().exit(0)
}

func TestLaunchOfflineStartsWhileTheTableIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), func(c *jobexec.Config) { c.LaunchOffline = true })
	f.mirror.held = make(chan struct{})
	f.start()
	f.wait("running is journalled", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusStarting })
	f.none()
	close(f.mirror.away)
	f.next().exit(0)
}

func TestAJobWhoseRowWasTakenIsNotStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a")), nil)
	held := make(chan struct{})
	f.mirror.held = held
	f.start()
	f.wait("running is journalled", func(s *journal.State) bool {
		return s.Job(1).Status == journal.StatusStarting && s.Job(2).Status == journal.StatusStarting
	})
	if _, err := f.journal.Append(journal.Draft{Job: 1, Payload: journal.Conflict{}}); err != nil {
		t.Fatal(err)
	}
	close(held)
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
	f.none()
}

func TestConcurrencyAndPrefetchBoundWhatIsClaimed(t *testing.T) {
	t.Parallel()
	tab := newTable()
	for id := range int64(10) {
		tab.insert(waiting(id+1, "a"))
	}
	f := newFixture(t, tab, nil)
	f.start()
	first, second := f.next(), f.next()
	<-tab.selected
	for id, want := range map[int64]string{4: journal.RowAccepted, 5: journal.RowWaiting} {
		if got := tab.status(id); got != want {
			t.Errorf("two slots and as many prefetched: job %d is %s, want %s", id, got, want)
		}
	}
	f.none()
	first.exit(0)
	third := f.next()
	if third.spec.Job != 3 {
		t.Errorf("job %d follows, want 3: first come, first served", third.spec.Job)
	}
	second.exit(1)
	third.exit(0)
	for range 7 {
		f.next().exit(0)
	}
	f.wait("all are done", func(s *journal.State) bool { return len(s.Jobs) == 0 })
}

func TestSetConcurrencyTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.start()
	f.next()
	f.none()
	if err := f.worker.SetConcurrency("b", 2, "me"); err != nil {
		t.Fatal(err)
	}
	f.next()
}

func TestFetchLimitBoundsOneClaim(t *testing.T) {
	t.Parallel()
	tab := newTable()
	for id := range int64(20) {
		tab.insert(waiting(id+1, []string{"a", "b"}[id%2]))
	}
	f := newFixture(t, tab, func(c *jobexec.Config) {
		c.FetchLimit, c.Targets = 3, map[string]int{"a": 10, "b": 10}
	})
	f.start()
	<-tab.selected
	largest := 0
	var group int
	f.wait("all are running", func(s *journal.State) bool {
		n := 0
		for _, job := range s.Jobs {
			if job.Status == journal.StatusRunning {
				n++
			}
		}
		return n == 20
	})
	tokens := make(map[string]int)
	f.journal.View(func(s *journal.State) {
		for _, job := range s.Jobs {
			tokens[job.Token]++
		}
	})
	for _, group = range tokens {
		largest = max(largest, group)
	}
	if largest > 3 {
		t.Errorf("one claim took %d rows, the limit is 3", largest)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	if err := f.worker.Pause(nil, "me"); err != nil {
		t.Fatal(err)
	}
	if err := f.worker.Pause([]string{"a"}, "me"); err != nil {
		t.Errorf("pausing twice: %v", err)
	}
	f.table.insert(waiting(1, "a"), manual(2, "a"))
	answers := make(chan jobexec.Answer, 1)
	go func() {
		answer, _ := f.worker.RunManual(context.Background(), []int64{2})
		answers <- answer
	}()
	f.wait("the manual job is accepted", func(s *journal.State) bool { return s.Job(2).Status == journal.StatusAccepted })
	f.none()
	if got := f.worker.Status().Targets["a"]; got != (jobexec.TargetStatus{Paused: true, Concurrency: 2, Length: 1}) {
		t.Errorf("status while paused: %+v", got)
	}
	if err := f.worker.Continue(nil, "me"); err != nil {
		t.Fatal(err)
	}
	f.next().exit(0)
	f.next().exit(0) // the row that waited: continue polls
	<-answers
}

func TestALauncherThatCannotBeStartedFailsTheJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a")), nil)
	f.runner.refuse = errors.New("start /launcher: no such file or directory")
	f.start()
	answer, err := f.worker.RunManual(t.Context(), []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	want := jobexec.Result{Result: "fail", Stderr: "jobd: start /launcher: no such file or directory\n"}
	if diff := cmp.Diff(want, answer.Jobs[1]); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestPollsAreNotForgottenWhileTheTableIsAway(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"))
	failures := 0
	tab.commit = func(apply func()) error {
		if failures++; failures <= 3 {
			return errors.New("link lost")
		}
		apply()
		return nil
	}
	f := newFixture(t, tab, nil)
	f.start()
	f.next().exit(0)
	f.wait("job is done", func(s *journal.State) bool { return s.Seq > 3 && len(s.Jobs) == 0 })
	story := f.story(1)
	if n := count(story, journal.KindReleased); n != 3 {
		t.Errorf("released %d times, want once for each claim that was not won: %v", n, story)
	}
}

func TestACommitWhoseAnswerIsLostStartsTheJobOnce(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), manual(2, "a"))
	tab.commit = func(apply func()) error {
		apply()
		return errors.New("link lost after the commit")
	}
	f := newFixture(t, tab, nil)
	f.start()
	f.next().exit(0)
	answers := make(chan jobexec.Answer, 1)
	go func() {
		answer, _ := f.worker.RunManual(context.Background(), []int64{2})
		answers <- answer
	}()
	f.next().exit(3)
	if answer := <-answers; answer.Jobs[2].Result != "fail" || len(answer.Errors) > 0 {
		t.Errorf("the client was told %+v", answer)
	}
	f.wait("both are done", func(s *journal.State) bool { return len(s.Jobs) == 0 })
	for id := int64(1); id <= 2; id++ {
		if story := f.story(id); count(story, journal.KindRunning) != 1 || count(story, journal.KindReleased) != 0 {
			t.Errorf("story of job %d: %v", id, story)
		}
	}
}

func TestAManualClaimThatWasNotWonIsToldToTheClient(t *testing.T) {
	t.Parallel()
	tab := newTable(manual(1, "a"))
	tab.commit = func(func()) error { return errors.New("link lost before the commit") }
	f := newFixture(t, tab, nil)
	f.start()
	answer, err := f.worker.RunManual(t.Context(), []int64{1})
	if err != nil {
		t.Fatal(err)
	}
	if want := "job 1 was not run: the claim was not won"; answer.Errors[1] != want {
		t.Errorf("told %q, want %q", answer.Errors[1], want)
	}
	f.none()
}

func TestARowResetWhileItsJobRunsIsClaimedAfterItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.table.insert(waiting(1, "a"))
	for range 3 {
		if err := f.worker.Poll([]string{"a"}); err != nil {
			t.Fatal(err)
		}
		<-f.table.selected
	}
	f.none()
	p.exit(0)
	f.next().exit(0)
}

func count(kinds []journal.Kind, kind journal.Kind) int {
	return len(slices.DeleteFunc(slices.Clone(kinds), func(k journal.Kind) bool { return k != kind }))
}

func TestTargetsChangeAtRunTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "c"), waiting(2, "a")), nil)
	f.start()
	busy := f.next()
	steps := []struct {
		name string
		do   func() error
		want string
	}{
		{"poll of an unknown target", func() error { return f.worker.Poll([]string{"a", "c"}) }, "invalid target 'c'"},
		{"pause of an unknown target", func() error { return f.worker.Pause([]string{"c"}, "me") }, "invalid target 'c'"},
		{"concurrency 0", func() error { return f.worker.AddTarget("c", 0, "me") }, "Invalid concurrency value."},
		{"add", func() error { return f.worker.AddTarget("c", 1, "me") }, ""},
		{"add again", func() error { return f.worker.AddTarget("c", 1, "me") }, "target 'c' already added"},
		{"remove while it runs a job", func() error { return f.worker.RemoveTarget("a", "me") }, "queue is not empty"},
		{"remove an unknown one", func() error { return f.worker.RemoveTarget("zz", "me") }, "target 'zz' not found"},
		{"set an unknown one", func() error { return f.worker.SetConcurrency("zz", 1, "me") }, "target 'zz' not found"},
		{"set to 0", func() error { return f.worker.SetConcurrency("a", 0, "me") }, "Invalid concurrency value."},
		{"remove", func() error { return f.worker.RemoveTarget("b", "me") }, ""},
	}
	for _, step := range steps {
		err := step.do()
		var refused jobexec.RefusedError
		if step.want == "" && err != nil || step.want != "" && (!errors.As(err, &refused) || err.Error() != step.want) {
			t.Errorf("%s: %v, want %q", step.name, err, step.want)
		}
	}
	if got := strings.Join(f.worker.TargetNames(), " "); got != "a c" {
		t.Errorf("targets: %s", got)
	}
	f.next().exit(0) // the row of the target that was added
	if err := f.worker.RetireTarget("a", "file"); err != nil {
		t.Fatal(err)
	}
	f.table.insert(waiting(3, "a"))
	busy.exit(0)
	f.wait("the target is gone when it is empty", func(s *journal.State) bool {
		_, there := s.Targets["a"]
		return !there
	})
	f.none()
}

func TestManualJobsThatCannotBeRun(t *testing.T) {
	t.Parallel()
	row := func(id int64, status string) journal.Row {
		return journal.Row{Job: id, Target: "a", Status: status}
	}
	tab := newTable(
		row(1, journal.RowWaiting), row(2, journal.RowAccepted), row(3, journal.RowRunning),
		row(4, journal.RowDone), row(5, journal.RowIgnored), manual(6, "elsewhere"), manual(8, "b"),
	)
	f := newFixture(t, tab, func(c *jobexec.Config) { c.Targets = map[string]int{"b": 1} })
	f.start()
	go func() { (<-f.runner.started).exit(0) }()
	answer, err := f.worker.RunManual(t.Context(), []int64{8, 1, 2, 3, 4, 5, 6, 7, 8})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int64]string{
		1: "status = waiting != manual", 2: "status = accepted != manual", 3: "status = running != manual",
		4: "status = done != manual", 5: "status = ignored != manual",
		6: "target 'elsewhere' not found (job id=6)", 7: "job 7 not found",
	}
	if diff := cmp.Diff(want, answer.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if answer.Jobs[8].Result != "ok" {
		t.Errorf("job 8: %+v", answer.Jobs[8])
	}
	for id, status := range map[int64]string{1: journal.RowIgnored, 2: journal.RowAccepted, 3: journal.RowRunning, 4: journal.RowDone, 6: journal.RowIgnored} {
		if got := tab.status(id); got != status {
			t.Errorf("row %d is %s afterwards, want %s: history is not to be lost", id, got, status)
		}
	}
}

func TestOneClientWaitsForAJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(manual(1, "a"), manual(2, "a")), nil)
	f.start()
	gone, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := f.worker.RunManual(gone, []int64{1})
		first <- err
	}()
	p := f.next()
	_, err := f.worker.RunManual(t.Context(), []int64{2, 1})
	if want := "another client is already waiting for job 1"; err == nil || err.Error() != want {
		t.Errorf("a second client: %v, want %q", err, want)
	}
	if got := f.table.status(2); got != journal.RowManual {
		t.Errorf("a request that is refused has changed job 2: %s", got)
	}
	if got := f.worker.Status().Clients; got != 1 {
		t.Errorf("%d clients wait, want 1", got)
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that left: %v", err)
	}
	p.exit(0)
	f.wait("the job goes on without its client", ended(1))
	if got := f.worker.Status().Clients; got != 0 {
		t.Errorf("%d clients wait, want none", got)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.wait("process is journalled", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusRunning })
	got := f.worker.SendSignal(map[int64]int{1: 15, 2: 15}, "127.0.0.1:9")
	if diff := cmp.Diff(map[int64]bool{1: true, 2: false}, got); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	if signo := <-p.signals; signo != 15 {
		t.Errorf("signal %d", signo)
	}
	for signo, want := range map[int]bool{0: true, -1: false, 65: false} {
		if got := f.worker.SendSignal(map[int64]int{1: signo}, "me")[1]; got != want {
			t.Errorf("signal %d delivered: %t, want %t", signo, got, want)
		}
	}
	p.exit(0)
	f.wait("job is done", ended(1))
	if f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
		t.Error("a signal to a job that is done was delivered")
	}
	if n := count(f.story(1), journal.KindSignal); n != 1 {
		t.Errorf("%d signals in the journal, want the one that was sent", n)
	}
}

func TestIDsReachTheLauncherAsWords(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(12, "a")), func(c *jobexec.Config) {
		c.Launcher = jobexec.Launcher{Words: []string{"sh", "-c", "exec run {id} {id}.log", "{id}"}, Env: []string{"PATH=/nowhere:/bin:/usr/bin"}}
	})
	f.start()
	got := fmt.Sprint(f.next().spec.Argv)
	if want := "[/bin/sh -c exec run 12 12.log 12]"; got != want {
		t.Errorf("started %s, want %s", got, want)
	}
}
