package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/reconcile"
	"jobd/store/storetest"
)

const tokenOne, tokenTwo = "@aaaa00001", "@aaaa00002"

// long is when things happened that are over; second is a unix time in it.
var long = time.Unix(second, 0)

const second = 1_700_000_000

// mirror is a mirror that has tried everything up to an event.
type mirror struct {
	tried uint64
	owed  bool
}

func (m *mirror) Tried(uint64) <-chan struct{} {
	tried := make(chan struct{})
	close(tried)
	return tried
}

func (m *mirror) Standing(int64) (uint64, bool) { return m.tried, m.owed }

// world is a journal and a table in memory, with a mirror that is up to date unless a test says
// otherwise.
type world struct {
	*testing.T
	history *storetest.History
	table   *hooked
	mirror  *mirror
	noted   []journal.Reapplied
	retried map[int64]int64 // what another worker's journal says
}

func newWorld(t *testing.T) *world {
	return &world{T: t, history: &storetest.History{}, table: &hooked{Memory: storetest.NewMemory("")}, mirror: &mirror{tried: 1 << 40}}
}

func (w *world) config() reconcile.Config {
	return reconcile.Config{Journal: w.history, Table: w.table, Mirror: w.mirror}
}

// hooked is a table that a test has a hand in.
type hooked struct {
	*storetest.Memory
	looks   int
	onLook  func(nth int)
	onClaim func(ids []int64) error
}

func (h *hooked) Look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	if h.looks++; h.onLook != nil {
		h.onLook(h.looks)
	}
	return h.Memory.Look(ctx, ids)
}

func (h *hooked) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) ([]int64, error) {
	if h.onClaim != nil {
		if err := h.onClaim(ids); err != nil {
			return nil, err
		}
	}
	return h.Memory.ClaimManual(ctx, ids, targets, decide)
}

// happen adds what happened to a job to the history.
func (w *world) happen(job int64, at time.Time, payloads ...journal.Payload) {
	for _, payload := range payloads {
		w.history.Add(job, at, payload)
	}
}

// ran adds a job that ran and ended well.
func (w *world) ran(job int64) {
	w.happen(job, long, claim(tokenOne), journal.Running{Attempt: 1}, journal.Started{Pid: 1}, done("ok"))
}

func claim(token string) journal.Payload { return journal.Accepted{Target: "a", Token: token} }

func done(result string) journal.Payload {
	return journal.Done{Result: result, Stdout: journal.Output{Kept: []byte("said"), Size: 4}}
}

// reapply brings rows back, and gives what was done in words, by job.
func (w *world) reapply(r *reconcile.Reapply) (map[int64]string, error) {
	w.Helper()
	return w.reapplyNoting(r, func(event journal.Reapplied) error {
		w.noted = append(w.noted, event)
		return nil
	})
}

func (w *world) reapplyNoting(r *reconcile.Reapply, note func(journal.Reapplied) error) (map[int64]string, error) {
	did := map[int64]string{}
	if r.Journal == nil {
		r.Config = w.config()
	}
	r.Logger, r.By, r.Worker, r.Targets, r.Note = slog.New(slog.DiscardHandler), "somebody", "node-1", []string{"a"}, note
	r.Visit = func(result reconcile.Result) error {
		did[result.Job.ID] = result.Did
		if result.Refusal != "" {
			did[result.Job.ID] += ": " + result.Refusal
		}
		return nil
	}
	return did, r.Run(w.Context())
}

// expect compares a row in words: status, owner, the times of start and end, result.
func (w *world) expect(id int64, want string) {
	w.Helper()
	got := "none"
	if row := w.table.Rows[id]; row != nil {
		got = fmt.Sprintf("%s %q %d %d %q", row.Status, row.Owner, row.Started, row.Finished, row.Result)
	}
	if got != want {
		w.Errorf("row %d: %s, want %s", id, got, want)
	}
}
