package history

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
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

// errTooMany says that maxCursors are open.
var errTooMany = fmt.Errorf("too many journal cursors: at most %d may be open", maxCursors)

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
}

// Open begins a stream, which lives until ctx ends. Only its owner may ask for it. Its error is errTooMany.
func (c *Cursors) Open(ctx context.Context, owner any, produce Produce) (id string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	one := &cursor{owner: owner, cancel: cancel, items: make(chan json.RawMessage), taken: make(chan struct{}, 1)}
	id = rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= maxCursors {
		cancel()
		return "", errTooMany
	}
	if c.open == nil {
		c.open = make(map[string]*cursor)
	}
	c.open[id] = one
	one.idle = time.AfterFunc(idleTime, cancel)
	context.AfterFunc(ctx, func() { c.drop(id) })
	go one.run(ctx, produce)
	return id, nil
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
