package exec_test

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// A client's request stands in the journal right before the first thing that is done about it, with
// who asked; one that changes nothing does not.
func TestARequestIsJournalledWithWhatIsDoneAboutIt(t *testing.T) {
	t.Parallel()
	row := journal.Row{Job: 3, Target: "a", Status: journal.RowDone}
	f := newFixture(t, newTable(manual(1, "a"), manual(2, "a"), row), nil)
	f.runner.instant = true
	f.start()
	vain, err := f.worker.RunManual(t.Context(), []int64{3, 9}, "somebody")
	if err != nil || vain.Requested {
		t.Fatalf("%+v, %v; nothing was done", vain, err)
	}
	answer, err := f.worker.RunManual(t.Context(), []int64{2, 1, 9}, "a client")
	if err != nil || !answer.Requested || answer.Jobs[1].Result != "ok" || answer.Jobs[2].Result != "ok" {
		t.Fatalf("%+v, %v", answer, err)
	}
	asked := f.of(journal.KindRequested)
	if want := []journal.Payload{journal.Requested{Jobs: []int64{1, 2, 9}, By: "a client"}}; !cmp.Equal(want, asked.payloads) {
		t.Fatalf("requests %+v, want %+v", asked.payloads, want)
	}
	if first := f.events(1)[0]; first.Kind() != journal.KindAccepted || first.Seq != asked.seqs[0]+1 {
		t.Errorf("event %d %s of job 1 is not the one behind the request, %d", first.Seq, first.Kind(), asked.seqs[0])
	}
}

// ofKind is the worker's own events of a kind.
type ofKind struct {
	seqs     []uint64
	times    []time.Time
	payloads []journal.Payload
}

func (f *fixture) of(kind journal.Kind) (found ofKind) {
	f.t.Helper()
	for _, e := range f.events(0) {
		if e.Kind() == kind {
			found.seqs, found.payloads = append(found.seqs, e.Seq), append(found.payloads, e.Payload)
			found.times = append(found.times, e.Time)
		}
	}
	return found
}

// The start tells on which machine it is, and what runs a job; the last words stand before the end,
// and nothing after it.
func TestWhatAStartAndAnEndTell(t *testing.T) {
	t.Parallel()
	last := journal.Refused{Request: "pause", By: "a client", Times: 3}
	f := newFixture(t, newTable(), func(c *jobexec.Config) {
		c.Host = "host-1"
		c.LastWords = func() []journal.Payload { return []journal.Payload{last} }
	})
	f.start()
	opened := f.of(journal.KindOpened).payloads[0].(journal.Opened)
	if want := []string{"/launcher", "--job={id}"}; opened.Host != "host-1" || !cmp.Equal(want, opened.Launcher) {
		t.Errorf("opened says %+v", opened)
	}
	f.stop()
	err := <-f.ended
	f.ended <- err
	if err != nil {
		t.Fatal(err)
	}
	if err := f.worker.Note(journal.Refused{Request: "late"}); err == nil {
		t.Error("something was journalled behind the end")
	}
	events := f.events(0)
	if n := len(events); n < 2 || events[n-1].Kind() != journal.KindClosed || !cmp.Equal(journal.Payload(last), events[n-2].Payload) {
		t.Errorf("the last events are %+v", events[max(0, n-2):])
	}
}

// Regression: a worker was killed between an ignored event and its COMMIT, and the journal said
// ignored for ever of a row that reads manual. So it is with a row that was set back last.
func TestRowsThatWereIgnoredLastAreAsked(t *testing.T) {
	t.Parallel()
	row := func(id int64, status string) journal.Row { return journal.Row{Job: id, Target: "c", Status: status} }
	retried := journal.Retried{Target: "c", From: "done", To: "waiting", Result: "fail", Finished: 1_700_000_000}
	f := newFixture(t, newTable(row(1, journal.RowManual), row(2, journal.RowIgnored), endedRow(4, "c", journal.RowDone)), func(c *jobexec.Config) {
		c.Doubtful = func() map[int64]journal.Payload {
			return map[int64]journal.Payload{1: journal.Ignored{}, 2: journal.Ignored{}, 3: journal.Ignored{}, 4: retried}
		}
	})
	for id := range int64(3) {
		if _, err := f.journal.Append(journal.Draft{Job: id + 1, Payload: journal.Ignored{Reason: "cancelled by me"}}); err != nil {
			t.Fatal(err)
		}
	}
	f.start()
	f.wait("the first is taken back", func(s *journal.State) bool { return s.Seq >= 5 })
	f.takenBack("when the worker was started again the row was manual")
	f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
	f.tells(4, "conflict")
	if a := <-f.client(2, 3); a.Errors[2] != "status = ignored != manual" {
		t.Errorf("%+v", a)
	}
	for _, id := range []int64{2, 3} { // ignored as it should be, and deleted since
		if got := words(f.story(id)); got != "ignored" {
			t.Errorf("story of job %d: %q", id, got)
		}
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	must.Do(t, f.worker.Pause(nil, "me"))
	if err := f.worker.Pause([]string{"a"}, "somebody else"); err != nil {
		t.Errorf("pausing twice: %v", err)
	}
	f.table.insert(waiting(1, "a"), manual(2, "a"))
	answers := f.client(2)
	f.claimed(2)
	f.none()
	want, got := jobexec.TargetStatus{Paused: true, Concurrency: 2, Length: 1, Prefetched: 1, PausedBy: "me"}, jobexec.TargetStatus{}
	want.PausedSince = f.of(journal.KindPaused).times[0].UnixMilli() // of the first of the two
	for deadline := time.Now().Add(hung); got != want && time.Now().Before(deadline); runtime.Gosched() {
		got = f.worker.Status().Targets["a"] // it is queued once its claim is won
	}
	if got != want {
		t.Errorf("status while paused: %+v", got)
	}
	must.Do(t, f.worker.Continue(nil, "me"))
	f.next().exit(0)
	f.next().exit(0) // the row that waited: continue polls
	<-answers
	if got := f.worker.Status().Targets["a"]; got.Paused || got.PausedSince != 0 || got.PausedBy != "" {
		t.Errorf("status when it goes on: %+v", got)
	}
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
	must.Do(t, f.worker.RemoveBusy("a", "file"))
	f.table.insert(waiting(3, "a"))
	f.wait("the target is gone", func(s *journal.State) bool {
		_, there := s.Targets["a"]
		return !there
	})
	busy.exit(0)
	f.wait("what ran of it has ended", ended(busy.spec.Job))
	f.none()
}

// heard is what an observer was told.
type heard struct {
	mu     sync.Mutex
	waits  map[string][]time.Duration
	ends   map[string][]string
	claims []error
}

func (h *heard) JobStarted(target string, waited time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waits[target] = append(h.waits[target], waited)
}

func (h *heard) JobEnded(target string, done journal.Done) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[target] = append(h.ends[target], done.Result)
}

func (h *heard) Claimed(_ time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claims = append(h.claims, err)
}

// Each job is told of once, when it began, with how long its row had waited, and when it ended. Of a
// row that does not say since when it waits only the end is told.
func TestJobsAreObserved(t *testing.T) {
	t.Parallel()
	made := waiting(7, "a")
	made.Created = time.Now().Add(-time.Hour).Unix()
	back := waiting(8, "a") // ran long ago, and was set back
	back.Created, back.Finished = made.Created, time.Now().Add(-time.Minute).Unix()
	h := &heard{waits: map[string][]time.Duration{}, ends: map[string][]string{}}
	f := newFixture(t, newTable(made, back, waiting(9, "b")), func(c *jobexec.Config) { c.Observer = h })
	f.start()
	for range 3 {
		p := f.next()
		if p.spec.Job == 8 {
			p.exit(3)
		} else {
			p.exit(0)
		}
	}
	f.wait("all are at their end", func(s *journal.State) bool { return len(s.Jobs) == 0 && s.Seq > 12 })
	f.until("status counts them", func(s jobexec.Status) bool {
		a, b := s.Targets["a"], s.Targets["b"]
		return a.Started == 2 && a.Ended == 2 && a.Failed == 1 && a.Running == 0 && b.Started == 1 && b.Ended == 1 && b.Failed == 0
	})
	f.stop() // the last turn is over when the worker is
	<-f.ended
	f.ended <- nil
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.waits["a"])
	within := func(got, want time.Duration) bool { return got >= want && got < want+30*time.Second }
	if w := h.waits["a"]; len(w) != 2 || !within(w[0], time.Minute) || !within(w[1], time.Hour) || len(h.waits["b"]) != 0 {
		t.Errorf("waits: %v, want a minute and an hour of a, and none of b", h.waits)
	}
	slices.Sort(h.ends["a"])
	if !slices.Equal(h.ends["a"], []string{"fail", "ok"}) || !slices.Equal(h.ends["b"], []string{"ok"}) {
		t.Errorf("ends: %v", h.ends)
	}
	if len(h.claims) == 0 || errors.Join(h.claims...) != nil {
		t.Errorf("claims: %v", h.claims)
	}
}

// Of a worker that has nothing to do nobody would notice that its table is out of reach: a lost
// connection makes it look.
func TestAnIdleWorkerNoticesThatItsTableIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	f.until("it has its name", func(s jobexec.Status) bool { return f.looked() && s.Outage == nil })
	f.table.change(func() { f.table.holdErr = errAway })
	f.worker.LookAtTable()
	f.until("it is away", func(s jobexec.Status) bool {
		return s.Outage != nil && s.Outage.Away && s.Outage.Why == "connection refused" && !s.Outage.Since.IsZero() && s.Returned.IsZero()
	})
	f.table.insert(waiting(1, "a"))
	f.table.change(func() { f.table.holdErr = nil })
	f.next().exit(0) // it polls
	f.until("it is back", func(s jobexec.Status) bool { return s.Outage == nil && !s.Returned.IsZero() })
}

// looked tells whether the table was asked for rows.
func (f *fixture) looked() bool {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	return f.table.claims > 0
}

func (f *fixture) targets() map[string]int {
	limits := make(map[string]int)
	for name, t := range f.worker.Status().Targets {
		limits[name] = t.Concurrency
	}
	return limits
}

// Regression: a reload took a busy target away, a second one brought it back: "already added", then
// it was removed when empty, and no further reload mended that.
func TestATargetThatIsToBeRemovedIsTakenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	must.Do(t, f.worker.SetTargets(map[string]int{"b": 1}, "file"))
	must.Do(t, f.worker.SetTargets(map[string]int{"a": 3, "b": 1}, "file"))
	p.exit(0)
	f.wait("the job is done", ended(1))
	f.table.insert(waiting(2, "a"))
	f.worker.PollAll()
	f.next().exit(0)
	if got, want := f.targets(), map[string]int{"a": 3, "b": 1}; !maps.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

// What was added over the wire and is not wanted goes; what was removed over the wire and is wanted
// comes back.
func TestSetTargetsComparesWithWhatIs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	for _, err := range []error{f.worker.AddTarget("c", 1, "me"), f.worker.RemoveTarget("b", "me"), f.worker.SetConcurrency("a", 9, "me")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	status := f.worker.Status().Targets // tells what the configuration says otherwise
	if a, c := status["a"].Configured, status["c"].Configured; a == nil || *a != 2 || c == nil || *c != 0 {
		t.Errorf("set by hand: %+v", status)
	}
	want := map[string]int{"a": 2, "b": 1}
	for range 2 {
		must.Do(t, f.worker.SetTargets(want, "file"))
		if got := f.targets(); !maps.Equal(got, want) {
			t.Errorf("targets %v, want %v", got, want)
		}
		if a := f.worker.Status().Targets["a"]; a.Configured != nil {
			t.Errorf("as configured: %+v", a)
		}
	}
	if got := words(f.story(0)); strings.Count(got, "target-added") != 2 || strings.Count(got, "target-removed") != 2 {
		t.Errorf("the second time nothing was to be done: %q", got)
	}
}

// A table that is lost can't say: the target is added, and what is wrong is found out once the
// table answers. Nothing is claimed for it then, and the others are not harmed.
func TestANameThatIsUnfitIsFoundOutLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "A"), waiting(2, "a")), nil)
	f.table.unfit["A"], f.table.namesErr = "the table takes it for target a", errAway
	f.start()
	must.Do(t, f.worker.AddTarget("A", 1, "me"))
	f.table.change(func() { f.table.namesErr = nil })
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
	f.until("it says why", func(s jobexec.Status) bool {
		return strings.Contains(s.Targets["A"].Why, "takes it for target a") && s.Targets["a"].Why == ""
	})
	f.none()
	var refused jobexec.RefusedError // where it answers, it refuses the name at once
	f.table.change(func() { f.table.unfit["B"] = "the table takes it for target b" })
	if err := f.worker.AddTarget("B", 1, "me"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the table takes it for target b") || f.worker.Serves("B") {
		t.Errorf("AddTarget: %v", err)
	}
	// The other one goes, so that this one is fit.
	f.table.change(func() { clear(f.table.unfit) })
	must.Do(t, f.worker.RemoveTarget("b", "me"))
	if p := f.next(); p.spec.Job != 1 {
		t.Errorf("job %d was started", p.spec.Job)
	}
}

func TestWhatRunsIsListed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "b")), func(c *jobexec.Config) {
		c.Targets = map[string]int{"a": 1, "b": 1, "c": 1}
	})
	f.start()
	first, second := f.next(), f.next()
	f.wait("both run", func(s *journal.State) bool {
		return s.Job(1).Status == journal.StatusRunning && s.Job(2).Status == journal.StatusRunning
	})
	list := func(targets ...string) (ids []int64) {
		for _, r := range f.worker.Running(targets) {
			if r.Attempt != 1 || r.Started.Pid == 0 || r.Usage == nil || r.Usage.CPU.Seconds() != float64(r.Started.Pid) || r.Began.IsZero() || r.Adopted {
				t.Errorf("it is told as %+v", r)
			}
			if want := map[int64]string{1: "a", 2: "b"}[r.ID]; r.Target != want {
				t.Errorf("job %d is of %s", r.ID, r.Target)
			}
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if all := list(); !slices.Equal(all, []int64{1, 2}) {
		t.Errorf("jobs %v run", all)
	}
	if some := list("b", "c", "unknown"); !slices.Equal(some, []int64{2}) {
		t.Errorf("jobs %v run of b and c", some)
	}
	first.exit(0)
	second.exit(0)
	f.wait("job 1 is done", ended(1))
	f.wait("job 2 is done", ended(2))
	for len(list()) > 0 { // the turn takes them off the board a moment after it is journalled
	}
}
