package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
)

// followEvents prints what there is, merged by time, and then what is appended, as it comes, until
// ctx ends. A connection that is lost meanwhile is made again.
func (p *program) followEvents(ctx context.Context, j *journals, q history.Query) error {
	seen := make(map[source]uint64)
	err := j.each(func(s source) error {
		anchor, err := s.anchor(ctx)
		seen[s] = anchor.Seq
		return err
	})
	if err == nil {
		err = p.printEvents(ctx, j, q, func(s source, seq uint64) { seen[s] = max(seen[s], seq) })
	}
	if err == nil {
		q.Last, q.Follow = 0, true
		err = p.printComing(ctx, j, q, seen)
	}
	if interrupted(ctx) {
		return nil // as it should be
	}
	return err
}

// coming is an event as it comes, or why none come any more.
type coming struct {
	from[journal.Event]
	err error
}

// printComing prints the events behind those that were seen, from all sources at once.
func (p *program) printComing(ctx context.Context, j *journals, q history.Query, seen map[source]uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	events := make(chan coming)
	give := func(c coming) bool {
		select {
		case events <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for s, after := range seen {
		q := q
		q.After = after
		group.Go(func() { give(coming{from[journal.Event]{source: s}, p.follow(ctx, s, q, give)}) })
	}
	printer := p.eventPrinter(j)
	for left := len(seen); left > 0; {
		select {
		case e := <-events:
			if e.err != nil {
				left--
				if err := j.fail(e.source, e.err); err != nil {
					return err
				}
				fmt.Fprintf(p.err, "jobctl: %v; the others go on\n", j.failed[len(j.failed)-1])
				continue
			}
			if err := printer.print(e.source, e.item); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// How long to wait before a lost connection is made again, at first and at most.
const (
	followRetry    = 250 * time.Millisecond
	followMaxRetry = 10 * time.Second
)

// follow gives one source's events behind q.After, over as many connections as it takes, until ctx
// ends or the source fails for a reason that no other connection mends. Between two connections
// nothing is missed and nothing comes twice: it goes on after the last one given.
func (p *program) follow(ctx context.Context, s source, q history.Query, give func(coming) bool) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = followRetry, followMaxRetry
	told := ""
	each := func(e journal.Event) bool {
		told = ""
		wait.Reset()
		return give(coming{from: from[journal.Event]{s, e}})
	}
	lost := s.link()
	attempt := func() error { return p.followOnce(ctx, s, &q, each) }
	for {
		err := attempt()
		if ctx.Err() != nil || lost == nil || !mended(err) {
			return err
		}
		if text := named(s, err).Error(); text != told {
			fmt.Fprintf(p.err, "jobctl: %s; trying again\n", text)
			told = text
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
		attempt = func() error { return p.followAgain(ctx, lost.name, &q, each) }
	}
}

// followAgain is followOnce over a new connection to a worker, maybe under another address, whose journal has
// the event that was seen last.
func (p *program) followAgain(ctx context.Context, name string, q *history.Query, give func(journal.Event) bool) error {
	client, end, err := p.connect(ctx)
	if err != nil {
		return err
	}
	defer end()
	r := &remote{client: client, name: name, address: name} // a master takes the name as well
	anchor, err := r.anchor(ctx)
	switch {
	case err != nil:
		return err
	case anchor.Seq < q.After:
		return errAnother
	}
	fmt.Fprintf(p.err, "jobctl: %s; going on after event %d\n", named(r, errors.New("connected again")), q.After)
	return p.followOnce(ctx, r, q, give)
}

// followOnce gives events until the first error, and notes in q which it gave.
func (p *program) followOnce(ctx context.Context, s source, q *history.Query, give func(journal.Event) bool) error {
	for e, err := range s.events(ctx, *q) {
		if err != nil {
			return err
		}
		q.After = e.Seq
		if !give(e) {
			return ctx.Err()
		}
	}
	return errors.New("the stream has ended")
}

// mended tells whether another connection may mend an error: the worker or the master is gone,
// maybe for a moment.
func mended(err error) bool {
	var answer *jobnet.RemoteError
	if !errors.As(err, &answer) {
		return !errors.Is(err, errAnother)
	}
	text := answer.Text
	return text == "connection lost" || text == history.ErrUnknown.Error() ||
		strings.HasPrefix(text, "worker '") && strings.HasSuffix(text, "not found") || strings.Contains(text, context.DeadlineExceeded.Error())
}

// errAnother says that what is there now is not what was followed.
var errAnother = errors.New("the worker has another journal now: it ends before what was followed")
