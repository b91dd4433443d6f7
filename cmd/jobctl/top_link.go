package main

import (
	"context"
	"errors"
	"net"

	jobnet "jobd/net"
)

// lasting is a link that is made again when it was lost, by the next one who needs it. It is safe
// for concurrent use.
type lasting struct {
	p    *program
	turn chan struct{} // holds one value while nobody looks at the rest

	client *client
	end    func() // nil: somebody else ends it
}

// newLasting begins with a link that its maker ends.
func newLasting(p *program, first *client) *lasting {
	l := &lasting{p: p, turn: make(chan struct{}, 1), client: first}
	l.turn <- struct{}{}
	return l
}

// use has the link used, or a new one. One over which no answer came is not used again.
func (l *lasting) use(ctx context.Context, do func(*client) error) error {
	c, err := l.get(ctx)
	if err != nil {
		return err
	}
	err = do(c)
	var answer *jobnet.RemoteError
	if err != nil && !errors.As(err, &answer) && ctx.Err() == nil {
		l.drop(c)
	}
	return err
}

func (l *lasting) get(ctx context.Context) (*client, error) {
	select {
	case <-l.turn:
		defer func() { l.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.client != nil {
		return l.client, nil
	}
	c, end, err := l.p.connect(ctx)
	var failed *net.OpError
	switch {
	case errors.As(err, &failed):
		return nil, failed.Err // where to, everybody knows
	case err != nil:
		return nil, err
	}
	if err := c.expect(ctx); err != nil {
		end()
		return nil, err
	}
	l.client, l.end = c, end
	return c, nil
}

// drop ends a link, unless that has happened.
func (l *lasting) drop(c *client) {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	if l.client == c {
		l.finish()
	}
}

// close ends the link that there is.
func (l *lasting) close() {
	<-l.turn
	defer func() { l.turn <- struct{}{} }()
	l.finish()
}

func (l *lasting) finish() {
	if l.client != nil && l.end != nil {
		l.end()
	} else if l.client != nil {
		l.client.link.Close()
	}
	l.client, l.end = nil, nil
}
