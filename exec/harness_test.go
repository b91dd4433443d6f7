package exec_test

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// hung is how long a wait may take: it ends a test that hangs, and is far more than any takes.
const hung = 2 * time.Minute

// fixture is a worker with everything around it in the test's hands.
type fixture struct {
	t       *testing.T
	journal *memory
	table   *table
	mirror  *mirror
	clients sync.WaitGroup // that asked for jobs, see manual
	runner  *runner
	disk    *disk
	worker  *jobexec.Worker
	stop    context.CancelFunc
	ended   chan error
}

// newFixture makes a worker that serves target a with two slots, and b with one.
func newFixture(t *testing.T, table *table, change func(*jobexec.Config)) *fixture {
	t.Helper()
	f := &fixture{
		t: t, journal: newJournal(table), table: table,
		runner: newRunner(), disk: newDisk(), mirror: &mirror{away: make(chan struct{})},
	}
	f.build(change)
	return f
}

// build makes a worker, as a new process would.
func (f *fixture) build(change func(*jobexec.Config)) {
	c := jobexec.Config{
		Name: "node-1", Targets: map[string]int{"a": 2, "b": 1}, Prefetch: 2, MaxAttempts: 2,
		Launcher: jobexec.Launcher{Words: []string{"/launcher", "--job={id}"}, Env: []string{"LANG=C"}},
		Recorder: f.journal, Table: f.table, Mirror: f.mirror, Runner: f.runner, Keeper: f.runner, Watcher: f.runner, Disk: f.disk,
		Pools: &pools{}, Requester: newRequester(), Observer: unobserved{},
		Retry:     func(string, ...any) jobexec.Retry { return patience{} },
		Logger:    slog.New(slog.DiscardHandler),
		OnTargets: func() {},
		OnRetried: func(targets []string) { f.worker.GivenBack(targets) },
		LastWords: func() []journal.Payload { return nil },
		LastStart: func(string, time.Time) (never time.Time) { return never },
		Knows:     func(context.Context, int64, string) (bool, *journal.Accepted) { return false, nil },
		Doubtful:  func() map[int64]journal.Payload { return nil },
		WasManual: func(context.Context, int64) bool { return false },
	}
	if change != nil {
		change(&c)
	}
	f.worker = jobexec.New(c)
}

// unobserved is an Observer that counts nothing.
type unobserved struct{}

func (unobserved) JobStarted(string, time.Duration) {}
func (unobserved) JobEnded(string, journal.Done)    {}
func (unobserved) Claimed(time.Duration, error)     {}

// start opens and runs the worker until the test ends.
func (f *fixture) start() {
	f.t.Helper()
	must.Do(f.t, f.worker.Open(1))
	f.run()
}

// run runs the worker, which is open, until the test ends.
func (f *fixture) run() {
	f.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	worker, ended := f.worker, make(chan error, 1)
	f.stop, f.ended = stop, ended
	begun := time.Now()
	go func() { ended <- worker.Run(ctx) }()
	f.t.Cleanup(func() {
		worker.Hurry()
		stop()
		f.endAll()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
		if n := f.table.claims; n > 500+100*int(time.Since(begun).Seconds()) { // a worker that does not wait asks thousands a second
			f.t.Errorf("the table was asked %d times: the worker does not wait for anything", n)
		}
	})
}

// reach waits until rows have these statuses. The table tells of each change.
func (f *fixture) reach(want map[int64]string) {
	f.t.Helper()
	timer := time.NewTimer(hung)
	defer timer.Stop()
	for {
		changed := f.table.changes()
		got := make(map[int64]string, len(want))
		for id := range want {
			got[id] = f.table.status(id)
		}
		if maps.Equal(got, want) {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			f.t.Fatalf("rows are %v, want %v within %s", got, want, hung)
		}
	}
}

// gone waits for the end of a worker that stops, which is no failure.
func (f *fixture) gone() {
	f.t.Helper()
	must.Do(f.t, <-f.ended)
	f.ended <- nil
}

// client has a client ask for jobs, and gives the channel of its answer.
func (f *fixture) client(ids ...int64) <-chan jobexec.Answer[jobexec.Result] {
	answers := make(chan jobexec.Answer[jobexec.Result], 1)
	f.clients.Go(func() {
		answer, _ := f.worker.RunManual(context.Background(), ids, "me")
		answers <- answer
	})
	return answers
}

// endAll ends every process that was started.
func (f *fixture) endAll() {
	for {
		select {
		case p := <-f.runner.started:
			p.exit(0)
		default:
			return
		}
	}
}

// next is the next process that the worker starts.
func (f *fixture) next() *process {
	f.t.Helper()
	select {
	case p := <-f.runner.started:
		f.t.Cleanup(func() { p.exit(0) })
		return p
	case <-time.After(hung):
		f.t.Fatalf("no job was started within %s", hung)
		return nil
	}
}

// hold has the mirror hold up what follows. It ends a job whose slot another one waits for, and
// returns when that one is announced, and its start waits for the table.
func (f *fixture) hold(ends *process, waits int64) (release chan struct{}) {
	f.t.Helper()
	f.claimed(waits)
	release = make(chan struct{})
	f.mirror.mu.Lock()
	f.mirror.held = release
	f.mirror.mu.Unlock()
	ends.exit(0)
	f.wait("the job behind it is announced", func(s *journal.State) bool { return s.Job(waits).Status == journal.StatusStarting })
	story := f.events(waits)
	f.until("its start waits for the table", func(jobexec.Status) bool { return f.mirror.awaited() >= story[len(story)-1].Seq })
	return release
}

// none checks that nothing was started.
func (f *fixture) none() {
	f.t.Helper()
	select {
	case p := <-f.runner.started:
		f.t.Fatalf("job %d was started", p.spec.Job)
	default:
	}
}

// wait waits until the journal's state fulfils a condition.
func (f *fixture) wait(what string, holds func(*journal.State) bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), hung)
	defer cancel()
	for {
		var seq uint64
		var ok bool
		f.journal.View(func(s *journal.State) { seq, ok = s.Seq, holds(s) })
		if ok {
			return
		}
		if _, err := f.journal.next(ctx, seq); err != nil {
			f.t.Fatalf("%s: not within %s", what, hung)
		}
	}
}

// story lists the kinds of a job's events, in order.
func (f *fixture) story(id int64) (kinds []journal.Kind) {
	f.t.Helper()
	for _, e := range f.events(id) {
		kinds = append(kinds, e.Kind())
	}
	return kinds
}

// outcome is how a job ended last.
func (f *fixture) outcome(id int64) (done journal.Done) {
	f.t.Helper()
	for _, e := range f.events(id) {
		if d, is := e.Payload.(journal.Done); is {
			done = d
		}
	}
	return done
}

// events lists a job's events, in order.
func (f *fixture) events(id int64) []journal.Event { return f.journal.of(id, "") }
