package runner

import (
	"io"
	"os"
	"sync"
	"time"

	"jobd/journal"
)

// capture reads a pipe to its end, keeps its beginning and counts the rest.
type capture struct {
	pipe  *os.File
	limit int
	kept  []byte
	size  int64
	err   error         // what ended reading
	ended chan struct{} // closed when reading has ended
}

func newCapture(pipe *os.File, limit int) *capture {
	return &capture{pipe: pipe, limit: limit, ended: make(chan struct{})}
}

// scratch holds buffers for bytes that are not kept.
var scratch = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// firstBuffer is how many bytes of output cost a single allocation.
const firstBuffer = 512

// drain reads until the end.
func (c *capture) drain() {
	defer close(c.ended)
	for c.err == nil && len(c.kept) < c.limit {
		c.grow()
		n, err := c.pipe.Read(c.kept[len(c.kept):cap(c.kept)])
		c.kept = c.kept[:len(c.kept)+n]
		c.size, c.err = c.size+int64(n), err
	}
	if c.err == nil {
		c.discard()
	}
}

// grow makes room for more, doubling the buffer but never beyond the limit.
func (c *capture) grow() {
	if len(c.kept) < cap(c.kept) {
		return
	}
	size := min(max(2*cap(c.kept), firstBuffer), c.limit)
	kept := make([]byte, len(c.kept), size)
	copy(kept, c.kept)
	c.kept = kept
}

// discard reads and counts what is not kept.
func (c *capture) discard() {
	buffer := scratch.Get().(*[64 << 10]byte)
	defer scratch.Put(buffer)
	for c.err == nil {
		n, err := c.pipe.Read(buffer[:])
		c.size, c.err = c.size+int64(n), err
	}
}

// result waits for the end, until the deadline at most, and tells whether somebody
// still holds the pipe open then.
func (c *capture) result(deadline time.Time) (output journal.Output, open bool) {
	select {
	case <-c.ended:
	default:
		// A pipe that takes no deadline would be waited for without one.
		if err := c.pipe.SetReadDeadline(deadline); err != nil {
			c.pipe.Close()
		}
		<-c.ended
	}
	c.pipe.Close()
	return journal.Output{Kept: c.kept, Size: c.size}, c.err != io.EOF
}
