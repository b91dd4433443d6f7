package main

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/net/api"
)

// What a daemon may answer, in bytes, and how long one answer may take once begun: the outputs of
// many jobs at once, over a slow link. Anything else is a page, or a list of workers.
const (
	maxAnswer     = 256 << 20
	maxShort      = 64 << 20
	answerTimeout = time.Hour
)

// answerLimit is how many bytes the answer to a request may take.
func answerLimit(typ string) int {
	if typ == api.RunManual.Name {
		return maxAnswer
	}
	return maxShort
}

// bounded is a connection from which no more is read than the request that was sent last allows: a
// server that writes without end must not fill the memory.
type bounded struct {
	net.Conn

	mu    sync.Mutex
	limit int
	left  int
	err   error
}

func bound(conn net.Conn) *bounded {
	b := &bounded{Conn: conn}
	b.allow(maxShort)
	return b
}

// allow lets so many bytes through from now on, or what is left of more.
func (b *bounded) allow(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit, b.left = bytes, max(bytes, b.left)
}

// failure says that more came; nil: it did not.
func (b *bounded) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left -= n; b.left < 0 && b.err == nil {
		b.err = fmt.Errorf("the answer is longer than %s, and was not read to its end", humanize.IBytes(uint64(b.limit)))
	}
	if b.err != nil {
		return 0, b.err
	}
	return n, err
}

// CloseWrite ends what is sent, as far as the connection knows that.
func (b *bounded) CloseWrite() error {
	if half, ok := b.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
