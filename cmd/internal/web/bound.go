package web

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// bound holds so many connections at most. For one more it closes the one that
// has been there for the longest without an answer under way: whoever holds connections keeps
// nobody else from asking. Where all of them are being answered, the new one is closed at once:
// whoever waits in line for a scrape learns nothing by waiting.
type bound struct {
	most int

	mu        sync.Mutex
	held      []net.Conn // the oldest first
	answering map[net.Conn]bool
}

// connKey is where a request's context has its connection.
type connKey struct{}

// watch has a server's connections bounded.
func (b *bound) watch(s *http.Server) {
	b.answering = make(map[net.Conn]bool)
	s.ConnState = b.change
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if c, ok := request.Context().Value(connKey{}).(net.Conn); ok {
			b.answer(c, true)
			defer b.answer(c, false)
		}
		next.ServeHTTP(w, request)
	})
}

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
		b.held = slices.DeleteFunc(b.held, func(other net.Conn) bool { return other == c })
	}
}

func (b *bound) answer(c net.Conn, now bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.answering, c); now {
		b.answering[c] = true
	}
}
