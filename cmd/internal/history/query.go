package history

import (
	"context"
	"iter"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
)

// Query selects events. In its JSON form it is the data of journal-events.
type Query struct {
	After  uint64         `json:"after,omitempty"`
	Job    int64          `json:"job,omitempty"`
	Kinds  []journal.Kind `json:"kinds,omitempty"`
	Target string         `json:"target,omitempty"`
	Since  time.Time      `json:"since,omitzero"`
	Until  time.Time      `json:"until,omitzero"`
	Last   int            `json:"last,omitempty"`
	Output bool           `json:"output,omitempty"`
	Result string         `json:"result,omitempty"` // only ends with this result: ok or fail
	Follow bool           `json:"follow,omitempty"` // go on with the events to come, until nobody wants more

	// AskedBy selects what somebody asked for whose address or name has this in it. (by is who asks for
	// the events.)
	AskedBy string `json:"asked_by,omitempty"`
	// LastLine leaves of a job's output the last line of stderr, cut to a readable length.
	LastLine bool `json:"last_line,omitempty"`
}

// Selects tells whether an event is among those of the result and of somebody that are wanted.
func (q Query) Selects(e journal.Event) bool {
	return journal.Filter{Result: q.Result, By: q.AskedBy}.Says(e.Payload)
}

// Special names the fields that were set and that workers of older versions do not know.
func (q Query) Special() (fields []string) {
	for _, f := range []struct {
		set  bool
		name string
	}{{q.Result != "", "result"}, {q.AskedBy != "", "asked_by"}, {q.LastLine, "last_line"}} {
		if f.set {
			fields = append(fields, f.name)
		}
	}
	return fields
}

func (q Query) filter() journal.Filter {
	return journal.Filter{
		After: q.After, Job: q.Job, Kinds: q.Kinds, Target: q.Target,
		Since: q.Since, Until: q.Until, Last: q.Last, Output: q.Output || q.LastLine,
		Result: q.Result, By: q.AskedBy,
	}
}

// followInterval is how often a query that follows looks for new events. The journal's writer may be another
// process, which tells nobody when it appends.
const followInterval = 200 * time.Millisecond

// Events gives the selected events, oldest first. It ends at the first error; one for the newest events
// goes on behind damage first, and a query that follows ends with ctx's.
func Events(ctx context.Context, r *replay.Reader, q Query) iter.Seq2[journal.Event, error] {
	if q.LastLine {
		return lastLines(allEvents(ctx, r, q))
	}
	return allEvents(ctx, r, q)
}

func allEvents(ctx context.Context, r *replay.Reader, q Query) iter.Seq2[journal.Event, error] {
	if !q.Follow {
		events := read(func(f journal.Filter) iter.Seq2[journal.Event, error] { return r.Events(ctx, f) })
		if q.Last > 0 {
			return events.newest(q.filter())
		}
		return events(q.filter())
	}
	return func(yield func(journal.Event, error) bool) {
		ticker := time.NewTicker(followInterval)
		defer ticker.Stop()
		for seen := q.After; ; {
			newest, err := r.Newest(ctx)
			if err != nil || newest > seen { // where it fails, the events that are sound go before the error
				for e, err := range r.Events(ctx, q.filter()) {
					if !yield(e, err) || err != nil {
						return
					}
					seen = e.Seq
				}
				if err != nil {
					yield(journal.Event{}, err)
					return
				}
				// What came after newest and was not selected is looked at once more.
				seen = max(seen, newest)
				q.After, q.Last = seen, 0
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				yield(journal.Event{}, ctx.Err())
				return
			}
		}
	}
}
