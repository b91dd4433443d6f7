package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// applier is a table that notes what it is given.
type applier struct {
	store.Applier // nil: what a test does not need is not there

	mu      sync.Mutex
	batches [][]store.Change
	errs    []error // the first calls fail with these
	hold    chan struct{}
	fate    map[int64]store.Outcome
	applied chan struct{} // receives after each batch that was taken
}

func newApplier() *applier {
	return &applier{fate: make(map[int64]store.Outcome), applied: make(chan struct{}, 1000)}
}

func (a *applier) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.hold != nil {
		select {
		case <-a.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if len(a.errs) > 0 {
		err := a.errs[0]
		a.errs = a.errs[1:]
		return nil, err
	}
	a.batches = append(a.batches, changes)
	outcomes := make([]store.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i] = a.fate[c.Job]
	}
	a.applied <- struct{}{}
	return outcomes, nil
}

// Server implements store.Applier: it does not tell servers apart.
func (a *applier) Server(context.Context) (string, error) { return "", nil }

// Confirm implements store.Applier.
func (a *applier) Confirm(string) {}

// Look implements store.Applier: there are no rows.
func (a *applier) Look(context.Context, []int64) (map[int64]*store.Seen, error) { return nil, nil }

// away is an error that says that the table is out of reach.
func away(text string) error { return &store.Unreachable{Op: "apply", Err: errors.New(text)} }

// set sets what becomes of a job's changes from now on.
func (a *applier) set(job int64, o store.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fate[job] = o
}

// last gives the last n changes that were applied, in words.
func (a *applier) last(n int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var words []string
	for _, batch := range a.batches {
		for _, c := range batch {
			words = append(words, fmt.Sprintf("%d %s %s", c.Job, c.Status, c.Token))
		}
	}
	return words[max(0, len(words)-n):]
}

// words puts what was applied into words: "job status token" a change, ";" between batches.
func (a *applier) words() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var batches []string
	for _, batch := range a.batches {
		var changes []string
		for _, c := range batch {
			changes = append(changes, fmt.Sprintf("%d %s %s", c.Job, c.Status, c.Token))
		}
		batches = append(batches, strings.Join(changes, ", "))
	}
	return strings.Join(batches, "; ")
}

func openJournal(t *testing.T) *eventlog.Log {
	t.Helper()
	j, err := eventlog.Open(t.Context(), eventlog.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// add appends one event after the other and gives the newest number.
func add(t *testing.T, j *eventlog.Log, drafts ...journal.Draft) uint64 {
	t.Helper()
	events, err := j.Append(drafts...)
	if err != nil {
		t.Fatal(err)
	}
	return events[len(events)-1].Seq
}

func accepted(id int64, token string) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Accepted{Target: "a", Token: token}}
}

func running(id int64) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Running{Attempt: 1}}
}

func done(id int64) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Done{Result: "ok"}}
}

func released(id int64) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Released{Reason: "test"}}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newMirror(j *eventlog.Log, table store.Applier) *store.Mirror {
	return store.NewMirror(store.Config{Source: j, Bookmark: j, Table: table, Logger: slog.New(slog.DiscardHandler)})
}

// run runs the mirror until the test ends.
func run(t *testing.T, m *store.Mirror) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// shown waits until the mirror is done with an event.
func shown(t *testing.T, m *store.Mirror, seq uint64) {
	t.Helper()
	select {
	case <-m.Shown(seq, 0):
	case <-time.After(10 * time.Second):
		t.Fatalf("event %d is not in the table after 10 s", seq)
	}
}

func TestTransitionsOfAJobCollapseIntoTheLast(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		drafts []journal.Draft
		want   string
	}{
		{"a claim shows by its own transaction", []journal.Draft{accepted(1, "@1")}, ""},
		{"running", []journal.Draft{accepted(1, "@1"), running(1)}, "1 running @1"},
		{"to its end", []journal.Draft{accepted(1, "@1"), running(1), done(1)}, "1 done @1"},
		{"given back", []journal.Draft{accepted(1, "@1"), released(1)}, "1 waiting @1"},
		{
			"a manual job given back",
			[]journal.Draft{{Job: 1, Payload: journal.Accepted{Target: "a", Manual: true, Token: "@1"}}, running(1), released(1)},
			"1 manual @1",
		},
		{
			"claimed again: one claim at a time",
			[]journal.Draft{accepted(1, "@1"), released(1), accepted(1, "@2"), running(1), done(1)},
			"1 waiting @1; 1 done @2",
		},
		{
			"jobs side by side",
			[]journal.Draft{accepted(1, "@1"), accepted(2, "@2"), running(1), running(2), done(1)},
			"1 done @1, 2 running @2",
		},
		{
			"what does not show", []journal.Draft{
				accepted(1, "@1"), running(1),
				{Job: 1, Payload: journal.Started{Pid: 1}},
				{Job: 1, Payload: journal.Signal{Signo: 15}},
				{Payload: journal.Paused{}},
			}, "1 running @1",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j, table := openJournal(t), newApplier()
			seq := add(t, j, test.drafts...)
			m := newMirror(j, table)
			run(t, m)
			shown(t, m, seq)
			if got := table.words(); got != test.want {
				t.Errorf("applied %q, want %q", got, test.want)
			}
		})
	}
}

func TestAChangeCarriesTimesAndOutcome(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	events, err := j.Append(accepted(1, "@1"), running(1), done(1))
	if err != nil {
		t.Fatal(err)
	}
	m := newMirror(j, table)
	run(t, m)
	shown(t, m, 3)
	outcome := events[2].Payload.(journal.Done)
	want := store.Change{
		Job: 1, Target: "a", Token: "@1", Accepted: events[0].Time,
		Status: journal.RowDone, Start: events[1].Time, Finish: events[2].Time, Done: &outcome,
	}
	got := table.batches[0][0]
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(want)); diff != "" || got.First() != 2 {
		t.Errorf("change of event %d on, want 2 (-want +got):\n%s", got.First(), diff)
	}
}

func TestTheMirrorGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	seq := add(t, j, accepted(1, "@1"), running(1))
	first := newMirror(j, table)
	run(t, first)
	shown(t, first, seq)
	// A new mirror knows nothing of the claim but what the journal tells.
	seq = add(t, j, done(1))
	second := newMirror(j, table)
	run(t, second)
	shown(t, second, seq)
	if got, want := table.words(), "1 running @1; 1 done @1"; !strings.HasPrefix(got, want) {
		t.Errorf("applied %q, want %q", got, want)
	}
	if j.Position() != seq {
		t.Errorf("position %d, want %d", j.Position(), seq)
	}
}

func TestAnOutageIsWaitedOut(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	table.errs = []error{away("link lost"), away("link lost"), away("refused")}
	returned := make(chan struct{}, 1)
	m := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: table, Logger: slog.New(slog.DiscardHandler),
		OnReturn: func() { returned <- struct{}{} },
	})
	away := m.Away()
	run(t, m)
	seq := add(t, j, accepted(1, "@1"), running(1))
	<-away
	shown(t, m, seq)
	<-returned
	select {
	case <-m.Away():
		t.Error("the table is still said to be away")
	default:
	}
	if got := table.words(); got != "1 running @1" {
		t.Errorf("applied %q", got)
	}
}

// The claim's own transaction has shown it.
func TestAStartAnnouncedByItsClaimIsNotMirrored(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	m := newMirror(j, table)
	claimed := journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1, Claimed: true}}
	run(t, m)
	shown(t, m, add(t, j, accepted(1, "@aaaa00001"), claimed))
	shown(t, m, add(t, j, done(1)))
	if got, want := table.words(), "1 done @aaaa00001"; got != want {
		t.Errorf("applied %q, want %q", got, want)
	}
}

func TestALostRowBecomesAConflict(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	found := journal.Row{Job: 1, Target: "a", Status: journal.RowWaiting}
	table.fate[1] = store.Outcome{Fate: store.Lost, Found: &found}
	table.fate[2] = store.Outcome{Fate: store.Lost}
	seq := add(t, j, accepted(1, "@1"), accepted(2, "@2"), accepted(3, "@3"), running(1), running(2), running(3))
	m := newMirror(j, table)
	run(t, m)
	shown(t, m, seq)
	events, err := j.Next(t.Context(), seq, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []journal.Payload{
		journal.Conflict{Found: &journal.Row{Target: "a", Status: journal.RowWaiting}, Wanted: journal.RowRunning, Token: "@1"},
		journal.Conflict{Wanted: journal.RowRunning, Token: "@2"},
	}
	for i, payload := range want {
		got := events[i].Payload.(journal.Conflict)
		if got.Found != nil {
			got.Found.Job = 0
		}
		if diff := cmp.Diff(payload, journal.Payload(got)); diff != "" {
			t.Errorf("conflict (-want +got):\n%s", diff)
		}
	}
	j.View(func(s *journal.State) {
		for id, status := range map[int64]journal.Status{1: journal.StatusNone, 2: journal.StatusNone, 3: journal.StatusStarting} {
			if got := s.Job(id).Status; got != status {
				t.Errorf("job %d is %q, want %q", id, got, status)
			}
		}
	})
}

// Nothing grows while the table is slow: what it is owed is in the journal, and
// what waits meanwhile goes into few transactions.
func TestWhatWaitsIsAppliedInBatches(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	table.hold = make(chan struct{})
	m := newMirror(j, table)
	run(t, m)
	const jobs = 2000
	var seq uint64
	for id := range int64(jobs) {
		seq = add(t, j, accepted(id+1, "@1"), running(id+1), done(id+1))
	}
	close(table.hold)
	shown(t, m, seq)
	if n := len(table.batches); n > jobs*3/512+2 {
		t.Errorf("%d transactions for %d jobs", n, jobs)
	}
}

func TestShownIsToldInOrder(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	m := newMirror(j, table)
	early := m.Shown(2, 0)
	late := m.Shown(5, 0)
	run(t, m)
	add(t, j, accepted(1, "@1"), running(1))
	<-early
	select {
	case <-late:
		t.Error("an event that does not exist yet is said to be shown")
	default:
	}
	add(t, j, accepted(2, "@2"), running(2), done(2))
	<-late
	<-m.Shown(3, 0)
}

// A change that is applied again after an unanswered COMMIT may meet its row under the next claim.
func TestARowThatWasClaimedAgainIsNoConflict(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), newApplier()
	add(t, j, accepted(1, "@aaaa00001"), running(1), done(1))
	last := add(t, j, accepted(1, "@aaaa00002"))
	row := journal.Row{Job: 1, Target: "a", Status: journal.RowAccepted, Owner: "@aaaa00002"}
	table.fate[1] = store.Outcome{Fate: store.Lost, Found: &row}
	m := newMirror(j, table)
	run(t, m)
	shown(t, m, last)
	j.View(func(s *journal.State) {
		if got := s.Job(1); s.Seq != last || got.Status != journal.StatusAccepted || got.Token != "@aaaa00002" {
			t.Errorf("after event %d the job is %+v, want the second claim untouched", s.Seq, got)
		}
	})
}
