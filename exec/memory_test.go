package exec_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

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
