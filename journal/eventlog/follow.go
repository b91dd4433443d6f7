package eventlog

import (
	"context"
	"fmt"
	"math"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// Next gives the events after seq, at least one and at most limit (0: no limit), fewer where
// they are large, waiting until there is one. Their output is among them. It serves the newest
// events from memory and older ones from disk. Errors: ctx's, ErrClosed, those of reading, and
// the failure of a journal that takes no more events, once all it has were given.
func (j *Log) Next(ctx context.Context, after uint64, limit int) ([]journal.Event, error) {
	if limit <= 0 {
		limit = maxRecentEvents
	}
	for {
		events, grown, err := j.recentAfter(after, limit)
		switch {
		case err != nil, len(events) > 0:
			return events, err
		case grown == nil:
			return j.load(ctx, after, limit)
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// recentAfter gives events from memory, or what to wait for where there are none yet;
// neither where they are on disk only.
func (j *Log) recentAfter(after uint64, limit int) ([]journal.Event, <-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return nil, nil, journal.ErrClosed
	case after < j.state.Seq:
		return j.recent.after(after, limit), nil, nil
	case j.broken != nil:
		return nil, nil, j.broken
	}
	if j.grown == nil {
		j.grown = make(chan struct{})
	}
	return nil, j.grown, nil
}

// load reads events from disk, as many as fit into the memory that recent events may take. None behind
// the limit is read ahead: it would be read once more by the next load.
func (j *Log) load(ctx context.Context, after uint64, limit int) ([]journal.Event, error) {
	var events []journal.Event
	size := 0
	wanted := archive.Selection{After: after, End: after + uint64(limit) + 1}
	err := j.reader.Read(ctx, wanted, func(e journal.Event) bool {
		events = append(events, e)
		size += e.Weight()
		return size <= maxRecentBytes && len(events) < limit
	})
	if err == nil && (len(events) == 0 || events[0].Seq != after+1) {
		err = &journal.DamagedError{Seq: after + 1, Detail: "it is missing"}
	}
	if err != nil {
		events = nil
	}
	return events, j.unlessClosed(err)
}

// unlessClosed is err, or ErrClosed where the reading failed for that.
func (j *Log) unlessClosed(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case j.closed:
		return journal.ErrClosed
	}
	return fmt.Errorf("follow journal: %w", err)
}

// Claim gives the newest accepted event of a job before seq. Errors: those of reading, and
// ErrNoClaim where there is no such event, or none any more.
func (j *Log) Claim(ctx context.Context, job int64, seq uint64) (journal.Accepted, error) {
	newest, found, err := j.newestOf(ctx, job, seq, journal.KindAccepted)
	if err == nil && !found {
		err = fmt.Errorf("job %d before event %d: %w", job, seq, journal.ErrNoClaim)
	}
	claim, _ := newest.Payload.(journal.Accepted)
	return claim, err
}

// Retried tells whether a job's row was set back after event seq, by what is kept of the history.
func (j *Log) Retried(ctx context.Context, job int64, seq uint64) (retried bool, err error) {
	newest, _, err := j.newestOf(ctx, job, math.MaxInt64, journal.KindRetried)
	return newest.Seq > seq, err
}

// Newest gives what the newest event of a job says that is of one of these kinds, by what is kept of
// the history; found is false where there is none.
func (j *Log) Newest(ctx context.Context, job int64, kinds ...journal.Kind) (newest journal.Payload, found bool, err error) {
	event, found, err := j.newestOf(ctx, job, math.MaxInt64, kinds...)
	return event.Payload, found, err
}

func (j *Log) newestOf(ctx context.Context, job int64, seq uint64, kinds ...journal.Kind) (newest journal.Event, found bool, err error) {
	newest, found, err = j.reader.NewestOf(ctx, job, seq, kinds...)
	return newest, found, j.unlessClosed(err)
}

// Back gives the number of the event from which on to read to see again what happened up to an age
// before event seq and since, at most limit events before it: Next gives what follows it. What
// retention has removed is not among that.
func (j *Log) Back(ctx context.Context, seq uint64, age time.Duration, limit uint64) (after uint64, err error) {
	if seq == 0 {
		return 0, nil
	}
	from := time.Time{} // of event seq
	j.View(func(s *journal.State) { from = s.Time })
	err = j.reader.Read(ctx, archive.Selection{After: seq - 1, End: seq + 1}, func(e journal.Event) bool {
		from = e.Time
		return false
	})
	var first uint64
	if err == nil {
		first, err = j.reader.FirstAt(ctx, from.Add(-age))
	}
	if err != nil {
		return 0, j.unlessClosed(err)
	}
	after = min(first-1, seq)
	if seq > limit {
		after = max(after, seq-limit)
	}
	return after, nil
}

// Bounds of what is kept in memory for the follower.
const (
	maxRecentEvents = 4096
	maxRecentBytes  = 2 << 20
)

// recent is the end of the journal that the follower has not passed yet, in
// memory, within bounds; beyond them the follower reads from disk.
type recent struct {
	events []journal.Event
	bytes  int
}

func (r *recent) add(events []journal.Event) {
	for _, e := range events {
		r.events = append(r.events, e)
		r.bytes += e.Weight()
	}
	for len(r.events) > maxRecentEvents || r.bytes > maxRecentBytes {
		r.shift()
	}
}

// drop forgets everything up to seq.
func (r *recent) drop(seq uint64) {
	for len(r.events) > 0 && r.events[0].Seq <= seq {
		r.shift()
	}
}

func (r *recent) shift() {
	r.bytes -= r.events[0].Weight()
	r.events[0] = journal.Event{} // lets go of its output
	r.events = r.events[1:]
}

// after gives the events behind seq, none where the oldest of them are not kept.
func (r *recent) after(seq uint64, limit int) []journal.Event {
	if len(r.events) == 0 || r.events[0].Seq > seq+1 {
		return nil
	}
	first := int(seq + 1 - r.events[0].Seq)
	last := min(first+limit, len(r.events))
	return append([]journal.Event(nil), r.events[first:last]...)
}

// Position is the newest event that the jobs table is known to show.
func (j *Log) Position() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.position
}

// SetPosition notes that the jobs table shows everything up to seq, which was appended. It is
// written with a commit ten times a second, and by Rest and Close: after a crash some events are
// mirrored once more, which is harmless.
func (j *Log) SetPosition(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq = min(seq, j.state.Seq); seq <= j.position {
		return
	}
	j.position = seq
	j.recent.drop(seq)
}

// maxLog is how large the write-ahead log may stay when the worker rests. SQLite uses
// it over and over from about 4 MiB on; it grows further behind a long reader or large output.
const maxLog = 16 << 20

// Rest writes what was only noted and empties a write-ahead log that has grown large. It is for a
// moment without other work. Its errors are Append's.
func (j *Log) Rest() error {
	if err := j.note(); err != nil {
		return err
	}
	return j.checkpoint(maxLog)
}

// note writes the position where it is not written yet.
func (j *Log) note() error {
	j.mu.Lock()
	noted := j.position != j.stored
	j.mu.Unlock()
	if !noted {
		return nil
	}
	_, err := j.Append()
	return err
}

// checkpoint empties a write-ahead log larger than bound.
func (j *Log) checkpoint(bound int64) error {
	j.tended.Lock()
	defer j.tended.Unlock()
	j.mu.Lock()
	newest := j.disk
	j.mu.Unlock()
	err := newest.Checkpoint(bound)
	if err == nil {
		return nil
	}
	if archive.Full(err) {
		return fmt.Errorf("checkpoint journal: %w: %w", journal.ErrFull, err)
	}
	err = fmt.Errorf("checkpoint journal: %w", archive.Damaged(err))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail(err)
	return err
}
