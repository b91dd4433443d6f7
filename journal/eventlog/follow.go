package eventlog

import (
	"context"
	"fmt"
	"math"
	"time"

	"jobd/journal"
	"jobd/journal/segment"
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
	wanted := segment.Selection{After: after, End: after + uint64(limit) + 1, Output: true}
	err := j.reader.Read(ctx, wanted, nil, func(e journal.Event) bool {
		events = append(events, e)
		size += e.Weight()
		return size <= maxRecentBytes && len(events) < limit
	})
	if err != nil {
		return nil, j.unlessClosed(segment.Wrong(after+1, err))
	}
	if len(events) == 0 || events[0].Seq != after+1 {
		return nil, j.unlessClosed(&journal.DamagedError{Seq: after + 1, Detail: "it is missing"})
	}
	return events, nil
}

// unlessClosed is err, or ErrClosed where the reading failed for that.
func (j *Log) unlessClosed(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return journal.ErrClosed
	}
	return fmt.Errorf("follow journal: %w", err)
}

// Claim gives the newest accepted event of a job before seq. Errors: those of reading, and
// ErrNoClaim where there is no such event, or none any more.
func (j *Log) Claim(ctx context.Context, job int64, seq uint64) (journal.Accepted, error) {
	claim, found, err := j.reader.Claim(ctx, job, seq)
	if err == nil && !found {
		err = fmt.Errorf("job %d before event %d: %w", job, seq, journal.ErrNoClaim)
	}
	if err != nil {
		return journal.Accepted{}, j.unlessClosed(err)
	}
	return claim, nil
}

// Retried tells whether a job's row was set back after event seq, by what is kept of the history.
func (j *Log) Retried(ctx context.Context, job int64, seq uint64) (retried bool, err error) {
	for e, err := range j.reader.Events(ctx, journal.Filter{Job: job, Kinds: []journal.Kind{journal.KindRetried}, Last: 1}) {
		if err != nil {
			return false, j.unlessClosed(err)
		}
		retried = e.Seq > seq
	}
	return retried, nil
}

// Newest gives what the newest event of a job says that is of one of these kinds, by what is kept of
// the history; found is false where there is none.
func (j *Log) Newest(ctx context.Context, job int64, kinds ...journal.Kind) (newest journal.Payload, found bool, err error) {
	newest, found, err = j.reader.NewestOf(ctx, job, math.MaxInt64, kinds...)
	if err != nil {
		err = j.unlessClosed(err)
	}
	return newest, found, err
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
	err = j.reader.Read(ctx, segment.Selection{After: seq - 1, End: seq + 1}, nil, func(e journal.Event) bool {
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
