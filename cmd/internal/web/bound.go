package web

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// bounded is a listener that holds so many connections at most. For one more it closes the one that
// has been there for the longest without an answer under way: whoever holds connections keeps
// nobody else from asking. Where all of them are being answered, the new one is closed at once:
// whoever waits in line for a scrape learns nothing by waiting.
type bounded struct {
	net.Listener
	most int

	mu   sync.Mutex
	held []*counted // the oldest first
}

func bound(l net.Listener, most int) *bounded { return &bounded{Listener: l, most: most} }

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &counted{Conn: conn, of: b}
		former, ok := b.take(c)
		if former != nil {
			former.Conn.Close()
		}
		if ok {
			return c, nil
		}
		conn.Close()
	}
}

// take gives a connection a place, if need be that of a former one.
func (b *bounded) take(c *counted) (former *counted, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) >= b.most {
		i := slices.IndexFunc(b.held, func(c *counted) bool { return c.answers == 0 })
		if i < 0 {
			return nil, false
		}
		former = b.held[i]
		b.held = slices.Delete(b.held, i, i+1)
	}
	b.held = append(b.held, c)
	return former, true
}

// counted is a connection that has a place until it is closed.
type counted struct {
	net.Conn
	of      *bounded
	answers int // under way; the listener's lock is for it
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.of.mu.Lock()
	c.of.held = slices.DeleteFunc(c.of.held, func(other *counted) bool { return other == c })
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (c *counted) answer(by int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.answers += by
}

// connKey is where a request's context has its connection.
type connKey struct{}

// withConn is http.Server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// answering notes on connections while they are answered.
func answering(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if c, ok := request.Context().Value(connKey{}).(*counted); ok {
			c.answer(+1)
			defer c.answer(-1)
		}
		handler.ServeHTTP(w, request)
	})
}
