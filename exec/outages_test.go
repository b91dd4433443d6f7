package exec_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// outages notes what has failed and what has succeeded again.
type outages struct {
	mu   sync.Mutex
	over map[string]int
}

type outage struct {
	of     *outages
	what   string
	failed bool
}

func (o *outage) Wait(ctx context.Context, cause error) error {
	o.failed = true
	return patience{}.Wait(ctx, cause)
}

func (o *outage) Over() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if o.failed {
		o.of.over[o.what]++
	}
	o.failed = false
}

// Of a start that is tried again the log says whose it is: there may be thousands at a time.
func TestAStartThatIsTriedAgainIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(7, "a")), nil)
	said := make(chan string, 10)
	f.build(func(c *jobexec.Config) {
		c.Retry = func(what string, about ...any) jobexec.Retry {
			said <- fmt.Sprint(append([]any{what}, about...))
			return patience{}
		}
	})
	f.runner.once = &jobexec.NotStartedError{Why: "start /bin/true: resource temporarily unavailable", Short: true}
	f.start()
	f.next().exit(0)
	f.wait("the job is done", func(s *journal.State) bool { return s.Seq > 4 && len(s.Jobs) == 0 })
	for what := range said {
		if what, named := strings.CutPrefix(what, "[start a job"); named {
			if what != " job 7 target a]" {
				t.Errorf("said of the start: %s", what)
			}
			return
		}
	}
}

// Each outage is told to be over, where what had failed succeeds.
func TestTheEndsOfOutagesAreTold(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"))
	failures := 0
	tab.commit = func(apply func()) error {
		if failures++; failures == 1 {
			return awayError{errors.New("link lost")}
		}
		apply()
		return nil
	}
	f := newFixture(t, tab, nil)
	told := &outages{over: make(map[string]int)}
	f.build(func(c *jobexec.Config) {
		c.Retry = func(what string, _ ...any) jobexec.Retry { return &outage{of: told, what: what} }
	})
	f.start()
	f.next().exit(0)
	f.wait("the job is done", func(s *journal.State) bool { return s.Seq > 4 && len(s.Jobs) == 0 })
	told.mu.Lock()
	defer told.mu.Unlock()
	if told.over["claim jobs"] != 1 {
		t.Errorf("told to be over: %v, want claims, once", told.over)
	}
}

// memory is a journal in memory, whose events the table shows at once: for tests in which time is
// faked, and which are not about crashes.
type memory struct {
	table *table
	told  strings.Builder // what was logged

	mu     sync.Mutex
	state  journal.State
	claims map[int64]journal.Accepted
	events []journal.Event
}

func (m *memory) Append(drafts ...journal.Draft) (events []journal.Event, err error) {
	var show []func()
	defer func() { // without m.mu: a claim appends while it holds the table
		for _, change := range show {
			m.table.change(change)
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range drafts {
		e := journal.Event{Seq: m.state.Seq + 1, Time: time.Now(), Job: d.Job, Payload: d.Payload}
		if err := m.state.Apply(e); err != nil {
			return nil, err
		}
		events = append(events, e)
		switch p := d.Payload.(type) {
		case journal.Accepted:
			m.claims[d.Job] = p
		case journal.Done, journal.Released, journal.Cancelled: // no part of a claim
			claim := m.claims[d.Job]
			show = append(show, func() { m.table.rows[d.Job] = shown(m.table.rows[d.Job], claim, p) })
		}
	}
	m.events = append(m.events, events...)
	return events, nil
}

func (m *memory) View(look func(*journal.State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	look(&m.state)
}

// of lists the events of one kind of a job.
func (m *memory) of(id int64, kind journal.Kind) (found []journal.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.Job == id && e.Kind() == kind {
			found = append(found, e)
		}
	}
	return found
}

// newMemory runs a worker with a journal in memory until the test ends. It serves target a with two
// slots, and b with one, and rows may come back.
func newMemory(t *testing.T, table *table, change func(*jobexec.Config)) (*memory, *runner, *jobexec.Worker) {
	t.Helper()
	m, r := &memory{table: table, claims: make(map[int64]journal.Accepted)}, newRunner()
	c := jobexec.Config{
		Name: "node-1", Targets: map[string]int{"a": 2, "b": 1}, Prefetch: 0, Again: true,
		Launcher: jobexec.Launcher{Words: []string{"/launcher", "--job={id}"}, Env: []string{"LANG=C"}},
		Recorder: m, Table: table, Mirror: &mirror{away: make(chan struct{})}, Runner: r, Keeper: r, Watcher: r, Disk: newDisk(),
		Retry:     func(string, ...any) jobexec.Retry { return patience{} },
		Logger:    slog.New(slog.NewTextHandler(&m.told, nil)),
		OnTargets: func() {},
	}
	if change != nil {
		change(&c)
	}
	var w *jobexec.Worker
	w = jobexec.New(complete(c, func(targets []string) { w.GivenBack(targets) }))
	if err := w.Open(1); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		w.Hurry()
		stop()
		for {
			select {
			case p := <-r.started:
				p.exit(0)
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
				return
			}
		}
	})
	return m, r, w
}

// deadlineOf is how a launcher is told until when its job may run.
func deadlineOf(at int64) string { return "JOBD_DEADLINE=" + strconv.FormatInt(at, 10) }

// pulse tells what the worker says of itself.
type pulse chan bool

func (p pulse) Works() { p <- true }
func (p pulse) Waits() { p <- false }

// A watchdog ping ends while the table does not answer, and does not end while somebody holds the lock
// that all loops share.
func TestAWorkerThatHangsIsAtWork(t *testing.T) {
	t.Parallel()
	table, said := newTable(waiting(1, "a")), make(pulse, 10)
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	table.commit = func(apply func()) error {
		asked <- struct{}{}
		<-answer
		apply()
		return nil
	}
	f := newFixture(t, table, func(c *jobexec.Config) { c.Pulse = said })
	f.start()
	<-asked
	f.worker.WatchdogPing()
	if !<-said || <-said {
		t.Error("the ping was not at work, or did not come to its end, while the table does not answer")
	}
	close(answer)
	f.next().exit(0)
	release := f.worker.HoldMemory()
	f.worker.WatchdogPing()
	f.worker.WatchdogPing()
	<-said
	select {
	case works := <-said:
		t.Errorf("the ping does not hang: %v", works)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	if <-said {
		t.Error("the ping goes on, and works again")
	}
}
