package journal

import "context"

// Next gives the events after seq, at least one and at most limit, waiting until
// there is one. Their output is among them. It serves the newest events from memory and
// older ones from disk. Errors: ctx's, ErrClosed, those of reading.
func (j *Journal) Next(ctx context.Context, after uint64, limit int) ([]Event, error) {
	for {
		j.mu.Lock()
		if after < j.state.Seq {
			events, ok := j.recent.after(after, limit)
			j.mu.Unlock()
			if ok {
				return events, nil
			}
			return j.load(ctx, after, limit)
		}
		if j.broken != nil {
			defer j.mu.Unlock()
			return nil, j.broken
		}
		if j.grown == nil {
			j.grown = make(chan struct{})
		}
		grown := j.grown
		j.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// load reads events from disk, as many as fit into the memory that recent
// events may take.
func (j *Journal) load(ctx context.Context, after uint64, limit int) ([]Event, error) {
	var events []Event
	size := 0
	for e, err := range scan(ctx, j.segment.read, query{
		where: "seq > ?", args: []any{int64(after)}, limit: limit,
	}) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
		if size += weight(e); size > maxRecentBytes {
			break
		}
	}
	return events, nil
}

// Bounds of what is kept in memory for the follower.
const (
	maxRecentEvents = 4096
	maxRecentBytes  = 8 << 20
)

// recent is the end of the journal that the follower has not passed yet, in
// memory, within bounds; beyond them the follower reads from disk.
type recent struct {
	events []Event
	bytes  int
}

func (r *recent) add(events []Event) {
	for _, e := range events {
		r.events = append(r.events, e)
		r.bytes += weight(e)
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
	r.bytes -= weight(r.events[0])
	r.events[0] = Event{} // lets go of its output
	r.events = r.events[1:]
}

// after gives the events behind seq, or false where the oldest of them are not kept.
func (r *recent) after(seq uint64, limit int) ([]Event, bool) {
	if len(r.events) == 0 || r.events[0].Seq > seq+1 {
		return nil, false
	}
	first := int(seq + 1 - r.events[0].Seq)
	last := min(first+limit, len(r.events))
	return append([]Event(nil), r.events[first:last]...), true
}

// weight is about how much memory an event takes.
func weight(e Event) int {
	if done, ok := e.Payload.(Done); ok {
		return 512 + len(done.Stdout.Kept) + len(done.Stderr.Kept)
	}
	return 512
}

// Claim gives the newest accepted event of a job before seq.
func (j *Journal) Claim(ctx context.Context, job int64, seq uint64) (Accepted, error) {
	for e, err := range scan(ctx, j.segment.read, query{
		where: `seq = (SELECT max(seq) FROM events WHERE job = ? AND job <> 0 AND kind = 'accepted' AND seq < ?)`,
		args:  []any{job, int64(seq)},
	}) {
		if err != nil {
			return Accepted{}, err
		}
		return e.Payload.(Accepted), nil
	}
	return Accepted{}, &DamagedError{Seq: seq, Detail: "the job was never accepted"}
}
