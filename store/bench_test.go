package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
)

// tape is a journal that is all in memory: whole lives of jobs, one after the other, without an
// end.
type tape struct {
	end chan struct{} // closed when enough was read
	max uint64
}

func (t *tape) Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error) {
	if after >= t.max {
		close(t.end)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	events := make([]journal.Event, 0, limit)
	for seq := after + 1; len(events) < limit; seq++ {
		job := int64(seq)/3 + 1
		draft := []journal.Draft{accepted(job, "@abcdefghi"), running(job), done(job)}[seq%3]
		events = append(events, journal.Event{Seq: seq, Job: job, Payload: draft.Payload})
	}
	return events, nil
}

func (t *tape) Claim(context.Context, int64, uint64) (journal.Accepted, error) {
	return journal.Accepted{Target: "a", Token: "@abcdefghi"}, nil
}

func (t *tape) Retried(context.Context, int64, uint64) (bool, error) { return false, nil }

func (t *tape) Back(_ context.Context, seq uint64, _ time.Duration, _ uint64) (uint64, error) {
	return seq, nil
}

func (t *tape) View(look func(*journal.State)) { look(&journal.State{Seq: t.max}) }

func (t *tape) Append(...journal.Draft) ([]journal.Event, error) {
	return nil, errors.New("nothing is in conflict")
}
func (t *tape) Position() uint64   { return 0 }
func (t *tape) SetPosition(uint64) {}
func (t *tape) Rest() error        { return nil }

// taker is a table that takes everything at once.
type taker struct{ store.Applier }

func (taker) Server(context.Context) (string, error) { return "", nil }
func (taker) Confirm(string)                         {}

func (taker) Apply(_ context.Context, changes []store.Change) ([]store.Outcome, error) {
	return make([]store.Outcome, len(changes)), nil
}

// One operation is an event on its way through the mirror, without journal and table.
func BenchmarkMirror(b *testing.B) {
	source := &tape{end: make(chan struct{}), max: uint64(b.N)}
	m := store.NewMirror(store.Config{Source: source, Bookmark: source, Table: taker{}})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { ended <- m.Run(ctx) }()
	<-source.end
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
