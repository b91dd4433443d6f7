package web

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"

	jobnet "jobd/net"
)

// bound holds so many connections at most. For one more it closes the one that
// has been there for the longest without an answer under way: whoever holds connections keeps
// nobody else from asking. Where all of them are being answered, the new one is closed at once:
// whoever waits in line for a scrape learns nothing by waiting.
//
// Streams, which are answered for hours, are counted by themselves, and closed for nobody.
type bound struct {
	most, mostStreams int
	ending            context.Context // of streams: the server stops

	mu        sync.Mutex
	held      []net.Conn // the oldest first
	answering map[net.Conn]bool
	streams   map[net.Conn]string // by who has them
}

// connection is that of a request.
type connection struct {
	net.Conn
	bound *bound // nil: nothing is bounded
}

// connKey is where a request's context has its connection.
type connKey struct{}

// connOf is the connection of a request.
func connOf(r *http.Request) connection {
	conn, _ := r.Context().Value(connKey{}).(connection)
	return conn
}

// peer is who is at its other end.
func (c connection) peer() jobnet.Peer { return jobnet.PeerOf(c.Conn) }

// waits says that a connection has no answer under way until done is called.
func (c connection) waits() (done func()) {
	if c.bound == nil {
		return func() {}
	}
	c.bound.answer(c.Conn, false)
	return func() { c.bound.answer(c.Conn, true) }
}

// watch has a server's connections bounded.
func (b *bound) watch(s *http.Server) {
	b.answering, b.streams = make(map[net.Conn]bool), make(map[net.Conn]string)
	var end context.CancelFunc
	b.ending, end = context.WithCancel(context.Background())
	s.RegisterOnShutdown(end)
	s.ConnState = b.change
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, connection{c, b})
	}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r).Conn
		b.answer(c, true)
		defer b.answer(c, false)
		next.ServeHTTP(&writer{w, connection{c, b}}, r)
	})
}

// writer is an answer that counts as under way while it is made, not while a reader takes its time.
type writer struct {
	http.ResponseWriter
	conn connection
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	defer w.conn.waits()()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// change is http.Server's ConnState.
func (b *bound) change(c net.Conn, to http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch to {
	case http.StateNew:
		if len(b.held) >= b.most {
			i := slices.IndexFunc(b.held, func(c net.Conn) bool { return !b.answering[c] })
			if i < 0 {
				c.Close()
				return
			}
			b.held[i].Close()
			b.held = slices.Delete(b.held, i, i+1)
		}
		b.held = append(b.held, c)
	case http.StateClosed, http.StateHijacked:
		b.leave(c)
		delete(b.streams, c)
	}
}

func (b *bound) answer(c net.Conn, now bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.answering, c); now {
		b.answering[c] = true
	}
}

// stream gives a connection's answer a place among the streams until it is closed, if there is one. Nobody with a
// name of his own has more than half of them.
func (b *bound) stream(c net.Conn, who string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := 0
	for _, other := range b.streams {
		if other == who && who != "" {
			own++
		}
	}
	if len(b.streams) >= b.mostStreams || own >= (b.mostStreams+1)/2 {
		return false
	}
	b.streams[c] = who
	b.leave(c)
	return true
}

// leave gives up a connection's place. Callers must hold mu.
func (b *bound) leave(c net.Conn) {
	b.held = slices.DeleteFunc(b.held, func(other net.Conn) bool { return other == c })
}
