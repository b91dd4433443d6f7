package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strings"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
)

const (
	mirrored = 5000 // jobs; each has two transitions that are mirrored
	byHand   = 100  // updates in a transaction
)

// mirror is how many transitions a second the mirror brings from a journal to the table, beside the same updates
// sent in batches by hand. All jobs run before the first is done: each transition is an update of its own.
func mirror(p *program) []reading {
	s := newSite(p)
	table := s.table()
	return []reading{paired(5,
		func() float64 { return s.updatesByHand(s.insert(mirrored, "a", "accepted")) },
		func() float64 { return s.mirrorRate(table, s.insert(mirrored, "a", "accepted")) },
	)}
}

// lives appends what makes two transitions of each job.
func lives(p *program, j *eventlog.Log, first int64) (newest uint64) {
	code := 0
	done := journal.Done{Result: "ok", Code: &code, Stdout: journal.Output{Kept: []byte("a line\n"), Size: 7}}
	for _, payload := range []journal.Payload{journal.Accepted{Target: "a", Token: token}, journal.Running{Attempt: 1}, done} {
		drafts := make([]journal.Draft, mirrored)
		for i := range drafts {
			drafts[i] = journal.Draft{Job: first + int64(i), Payload: payload}
		}
		events, err := j.Append(drafts...)
		p.must(err)
		newest = events[len(events)-1].Seq
	}
	return newest
}

func (s *site) mirrorRate(t table, first int64) float64 {
	s.Exec(s.p, "UPDATE jobs SET sig = ? WHERE id >= ?", token, first)
	j, err := eventlog.Open(s.p.Context(), eventlog.Config{Dir: s.p.TempDir()})
	s.p.must(err)
	defer j.Close()
	newest := lives(s.p, j, first)
	m := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: t.Table, Logger: slog.New(slog.DiscardHandler), OnReturn: func() {},
	})
	ctx, cancel := context.WithCancel(s.p.Context())
	ended := make(chan error, 1)
	measured := rate(2*mirrored, func() {
		go func() { ended <- m.Run(ctx) }()
		<-m.Shown(newest, 0)
	})
	cancel()
	s.p.must(<-ended)
	if done := s.Count(s.p, "id >= ? AND result = 'ok'", first); done != mirrored {
		s.p.Fatalf("%d of %d rows are done", done, mirrored)
	}
	return measured
}

// updatesByHand writes the same transitions, guarded in the same way, with as few round trips.
func (s *site) updatesByHand(first int64) float64 {
	s.Exec(s.p, "UPDATE jobs SET sig = ? WHERE id >= ?", token, first)
	conn, err := s.Admin.Conn(s.p.Context())
	s.p.must(err)
	defer conn.Close()
	guard := fmt.Sprintf(" WHERE id = ? AND status IN ('accepted', 'running') AND sig = '%s';", token)
	running := "UPDATE jobs SET status = 'running', time_started = UNIX_TIMESTAMP()" + guard
	done := "UPDATE jobs SET status = 'done', time_finished = UNIX_TIMESTAMP(), result = 'ok', return_code = 0, sig = NULL, stdout = 'a line\\n', stderr = ''" + guard
	return rate(2*mirrored, func() {
		for _, update := range []string{running, done} {
			for at := first; at < first+mirrored; at += byHand {
				s.p.must(batch(s.p.Context(), conn, update, at))
			}
		}
	})
}

func batch(ctx context.Context, conn *sql.Conn, update string, first int64) error {
	ids := make([]any, byHand)
	for i := range ids {
		ids[i] = first + int64(i)
	}
	_, err := conn.ExecContext(ctx, "START TRANSACTION;"+strings.Repeat(update, byHand)+"COMMIT", ids...)
	return err
}
