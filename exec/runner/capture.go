package runner

import (
	"golang.org/x/sys/unix"

	"jobd/journal"
)

// capture reads a pipe to its end, keeps its beginning and counts the rest.
type capture struct {
	pipe   int  // the end that is read, which never waits
	closed bool // after the end, or an error
	epoll  int  // the one that it is in; 0: none
	limit  int
	kept   []byte
	size   int64
}

// scratchSize is as much as one read brings: what a pipe holds.
const scratchSize = 64 << 10

// turnBytes is how much of one pipe is read before others have their turn.
const turnBytes = 256 << 10

// read takes what the pipe has, a turn's share at most, and closes it at its end. Where
// drain is set it goes on until nothing is there, else it leaves that to be told.
func (c *capture) read(scratch []byte, drain bool) {
	for budget := turnBytes; budget > 0 && !c.closed; {
		n, asked, err := c.take(scratch)
		budget -= n
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return
		case err != nil || n == 0:
			c.close()
		case n < asked && !drain:
			return
		}
	}
}

// take reads once: into the buffer that is kept where that has room, else into scratch, so that
// little output costs a single allocation of its size, and none costs none.
func (c *capture) take(scratch []byte) (n, asked int, err error) {
	room := c.kept[len(c.kept):cap(c.kept)]
	if len(room) > 0 {
		n, err = unix.Read(c.pipe, room)
		n = max(n, 0)
		c.kept = c.kept[:len(c.kept)+n]
	} else {
		room = scratch
		n, err = unix.Read(c.pipe, room)
		n = max(n, 0)
		c.keep(room[:n])
	}
	c.size += int64(n)
	return n, len(room), err
}

// keep copies output, doubling the buffer but never beyond the limit.
func (c *capture) keep(more []byte) {
	more = more[:min(len(more), c.limit-len(c.kept))]
	if len(more) == 0 {
		return
	}
	size := min(max(2*cap(c.kept), len(c.kept)+len(more)), c.limit)
	kept := make([]byte, len(c.kept), size)
	copy(kept, c.kept)
	c.kept = append(kept, more...)
}

func (c *capture) open() bool { return !c.closed }

// close gives the pipe up, and its place in the epoll, which would be kept by the copy of a child that does not
// execute its program yet.
func (c *capture) close() {
	if c.closed {
		return
	}
	c.closed = true
	if c.epoll != 0 {
		_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, c.pipe, nil) // it is there
	}
	unix.Close(c.pipe)
}

func (c *capture) output() journal.Output { return journal.Output{Kept: c.kept, Size: c.size} }
