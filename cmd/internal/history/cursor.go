package history

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
)

// Bounds of pages and cursors.
const (
	pageBytes  = 256 << 10        // after which a page is complete; one item more may be in it
	pageItems  = 1000             // at most
	PageTime   = time.Second      // after which a page is complete, maybe empty
	idleTime   = time.Minute      // after which a cursor that nobody asks is dropped
	maxCursors = 64               // open at once in one worker
	pageGrace  = 10 * time.Second // for which a page is waited for that another request is taking
)

// ErrUnknown says that there is no such cursor, any more or at all.
var ErrUnknown = errors.New("unknown journal cursor")

// Produce gives the items of a stream to yield, which blocks until they are wanted. It must end when yield
// gives an error or ctx ends.
type Produce func(ctx context.Context, yield func(item any) error) error

// Page is a part of a stream.
type Page struct {
	Items []json.RawMessage `json:"items"`
	More  bool              `json:"more"`            // false: the stream has ended, and the cursor with it
	Error string            `json:"error,omitempty"` // why it ended, where it did not get to its end
}

// Cursors are the streams that are open in a worker. The zero value is ready; its methods are safe for concurrent use.
type Cursors struct {
	// Tell gives the text of an error that a client may see; nil: the whole error.
	Tell func(error) string

	mu   sync.Mutex
	open map[string]*cursor
}

type cursor struct {
	owner  any
	cancel context.CancelFunc
	items  chan json.RawMessage // closed at the stream's end
	err    error                // why it ended; set before items is closed
	taken  chan struct{}        // holds a token while a page is taken
	idle   *time.Timer
	peer   string    // that opened it
	asked  time.Time // when a page was last asked for; guarded by Cursors.mu
}

// Open begins a stream of a peer, which lives until ctx ends. Only its owner may ask for it. Where
// maxCursors are open, the peer that has most of them loses the one that it has not asked for longest.
func (c *Cursors) Open(ctx context.Context, owner any, peer string, produce Produce) (id string) {
	ctx, cancel := context.WithCancel(ctx)
	one := &cursor{
		owner: owner, peer: peer, cancel: cancel, asked: time.Now(),
		items: make(chan json.RawMessage), taken: make(chan struct{}, 1),
	}
	id = rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[string]*cursor)
	}
	if len(c.open) >= maxCursors {
		of := make(map[string]int)
		for _, other := range c.open {
			of[other.peer]++
		}
		oldest := slices.MinFunc(slices.Collect(maps.Keys(c.open)), func(a, b string) int {
			one, other := c.open[a], c.open[b]
			return cmp.Or(of[other.peer]-of[one.peer], one.asked.Compare(other.asked))
		})
		c.open[oldest].cancel()
		delete(c.open, oldest)
	}
	c.open[id] = one
	one.idle = time.AfterFunc(idleTime, cancel)
	context.AfterFunc(ctx, func() { c.drop(id) })
	go one.run(ctx, produce)
	return id
}

// run produces the items one by one.
func (one *cursor) run(ctx context.Context, produce Produce) {
	defer close(one.items)
	one.err = produce(ctx, func(item any) error {
		encoded, err := json.Marshal(item)
		if err != nil {
			return err
		}
		select {
		case one.items <- encoded:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// drop forgets a cursor.
func (c *Cursors) drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.open[id]; one != nil {
		one.idle.Stop()
		delete(c.open, id)
	}
}

// Close ends a stream. Its error is ErrUnknown.
func (c *Cursors) Close(owner any, id string) error {
	one, err := c.find(owner, id)
	if err == nil {
		one.cancel()
	}
	return err
}

func (c *Cursors) find(owner any, id string) (*cursor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.open[id]
	if one == nil || one.owner != owner {
		return nil, ErrUnknown
	}
	one.asked = time.Now()
	return one, nil
}

// Next gives the next page of a stream. Its errors are ErrUnknown and ctx's.
func (c *Cursors) Next(ctx context.Context, owner any, id string) (Page, error) {
	one, err := c.find(owner, id)
	if err != nil {
		return Page{}, err
	}
	select { // two at once would share the items between them
	case one.taken <- struct{}{}:
		defer func() { <-one.taken }()
	case <-ctx.Done():
		return Page{}, ctx.Err()
	case <-time.After(pageGrace):
		return Page{}, ErrUnknown
	}
	one.idle.Stop()
	page := one.page(ctx)
	if !page.More {
		if one.err != nil {
			page.Error = c.tell(one.err)
		}
		one.cancel()
		return page, nil
	}
	one.idle.Reset(idleTime)
	return page, nil
}

func (c *Cursors) tell(err error) string {
	if c.Tell == nil {
		return err.Error()
	}
	return c.Tell(err)
}

// page collects items until there are enough, or for as long as a page may take.
func (one *cursor) page(ctx context.Context) Page {
	page := Page{Items: []json.RawMessage{}, More: true}
	late := time.After(PageTime)
	for size := 0; size < pageBytes && len(page.Items) < pageItems; {
		select {
		case item, more := <-one.items:
			if !more {
				page.More = false
				return page
			}
			page.Items = append(page.Items, item)
			size += len(item)
		case <-late:
			return page
		case <-ctx.Done():
			return page
		}
	}
	return page
}

// Query selects events. In its JSON form it is the data of journal-events.
type Query struct {
	After  uint64         `json:"after,omitempty"`
	Job    jobnet.Whole   `json:"job,omitempty"`
	Kinds  []journal.Kind `json:"kinds,omitempty"`
	Target string         `json:"target,omitempty"`
	Since  time.Time      `json:"since,omitzero"`
	Until  time.Time      `json:"until,omitzero"`
	Last   int            `json:"last,omitempty"`
	Most   int            `json:"most,omitempty"` // the oldest so many; 0, and of an older version: all
	Output bool           `json:"output,omitempty"`
	Result string         `json:"result,omitempty"` // only events with result ok or fail
	Follow bool           `json:"follow,omitempty"` // go on with the events to come, until nobody wants more

	// AskedBy selects what somebody asked for whose address or name has this in it. (by is who asks for
	// the events.)
	AskedBy string `json:"asked_by,omitempty"`
	// Has tells which targets those have who ask; nil: all.
	Has func(target string) bool `json:"-"`
	// LastLine leaves of a job's output the last line of stderr, cut to a readable length.
	LastLine bool `json:"last_line,omitempty"`
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
		After: q.After, Job: int64(q.Job), Kinds: q.Kinds, Target: q.Target,
		Since: q.Since, Until: q.Until, Last: q.Last, Output: q.Output || q.LastLine,
		Result: q.Result, By: q.AskedBy, Has: q.Has,
	}
}

// followInterval is how often a query that follows looks for new events. The journal's writer may be another
// process, which tells nobody when it appends.
const followInterval = 200 * time.Millisecond

// Events gives the selected events, oldest first. It ends at the first error; a query that follows ends
// with ctx's.
func Events(ctx context.Context, r *replay.Reader, q Query) iter.Seq2[journal.Event, error] {
	events := r.Events(ctx, q.filter())
	if q.Follow {
		events = follow(ctx, r, q)
	}
	if q.LastLine {
		events = lastLines(events)
	}
	if q.Most > 0 {
		events = oldest(events, q.Most)
	}
	return events
}

// oldest gives the first events, so many, and an error that comes before them.
func oldest(events iter.Seq2[journal.Event, error], most int) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		n := 0
		for e, err := range events {
			if n++; !yield(e, err) || n == most {
				return
			}
		}
	}
}

// follow goes on with the events to come.
func follow(ctx context.Context, r *replay.Reader, q Query) iter.Seq2[journal.Event, error] {
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
