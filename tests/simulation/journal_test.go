package simulation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/reconcile"
)

// history is a worker's journal, folded by the real rules. It outlives the worker's processes.
type history struct {
	store.Source // for what is not needed: other servers

	w *world

	mu       sync.Mutex
	state    journal.State
	events   []journal.Event
	claims   map[int64][]uint64 // by job: its accepted events
	grown    chan struct{}      // closed when there are more events
	position uint64             // of the mirror
	stored   uint64             // the same on disk
}

func newHistory(w *world) *history {
	return &history{w: w, claims: map[int64][]uint64{}, grown: make(chan struct{})}
}

// book is a process's hold on its worker's journal.
type book struct {
	*history
	p *process
}

var errKilled = errors.New("the process was killed")

// Append implements exec.Recorder and store.Source. What a process was writing while it was killed may be
// durable or not.
func (b *book) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	if b.p.isDead() {
		return nil, errKilled
	}
	timer := time.NewTimer(200*time.Microsecond + b.w.upTo(2*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.p.dead: // no lock of the worker's may be held any longer: nobody waits for a lock in a bubble
	}
	if b.p.isDead() && b.w.coin() {
		return nil, errKilled
	}
	events, err := b.add(drafts)
	if err != nil {
		return nil, err
	}
	if b.w.mayKill(b.p, 0.002); b.p.isDead() {
		return nil, errKilled
	}
	return events, nil
}

func (h *history) add(drafts []journal.Draft) (events []journal.Event, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, d := range drafts {
		events = append(events, journal.Event{Seq: h.state.Seq + uint64(i) + 1, Time: time.Now(), Job: d.Job, Payload: d.Payload})
	}
	staged := h.state.Stage(len(events))
	if _, err := staged.Add(events...); err != nil {
		return nil, err
	}
	if err := h.state.Take(staged, events); err != nil {
		return nil, err
	}
	for _, e := range events {
		if e.Kind() == journal.KindAccepted {
			h.claims[e.Job] = append(h.claims[e.Job], e.Seq)
		}
		h.w.note("journalled", e.Job, string(e.Kind()), h.state.Name)
	}
	h.events = append(h.events, events...)
	close(h.grown)
	h.grown = make(chan struct{})
	return events, nil
}

func (h *history) View(look func(*journal.State)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	look(&h.state)
}

func (h *history) Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error) {
	for {
		h.mu.Lock()
		events, grown := h.events[after:], h.grown
		h.mu.Unlock()
		if len(events) > 0 {
			return slices.Clone(events[:min(len(events), limit)]), nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (h *history) Claim(_ context.Context, job int64, seq uint64) (claim journal.Accepted, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range slices.Backward(h.claims[job]) {
		if at < seq {
			return h.events[at-1].Payload.(journal.Accepted), nil
		}
	}
	return claim, fmt.Errorf("job %d: %w", job, journal.ErrNoClaim)
}

// Retried implements store.Source: nobody sets rows back.
func (*history) Retried(context.Context, int64, uint64) (bool, error) { return false, nil }

func (h *history) Position() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.position
}

// SetPosition implements store.Bookmark. Most of the time it is on disk later.
func (b *book) SetPosition(seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.p.isDead() {
		return
	}
	if b.position = seq; b.w.coin() {
		b.stored = seq
	}
}

func (b *book) Rest() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.p.isDead() {
		return errKilled
	}
	b.stored = b.position
	return nil
}

// reopen is what the next process finds.
func (h *history) reopen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.position = h.stored
}

// claimsOf is a journal as far as reconcile.Claimed looks at one: the events of a job.
type claimsOf struct {
	reconcile.Journal
	*history
}

func (c claimsOf) Events(_ context.Context, f journal.Filter) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.events {
			if e.Job == f.Job && !yield(e, nil) {
				return
			}
		}
	}
}

// knows implements exec.Config.Knows as jobd does.
func (h *history) knows(ctx context.Context, job int64, token string) (known bool, unstarted *journal.Accepted) {
	claim, started, _ := reconcile.Claimed(ctx, claimsOf{history: h}, job, token)
	if started {
		return true, nil
	}
	return claim != nil, claim
}
