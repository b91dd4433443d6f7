package host

import (
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"jobd/journal"
)

// capture reads a pipe to its end, keeps the beginning of what it reads and counts the rest. While
// somebody follows the job, it has the newest of the rest, too.
type capture struct {
	pipe   int  // the end that is read; reading never waits
	closed bool // after the end, or an error
	epoll  int  // the one that it is in; 0: none
	limit  int  // how much is kept
	rest   *rest

	// Of a pipe that a kept process has for one job after the other.
	shared  bool // it is not closed with the capture
	hungUp  bool // nobody can write into it any more
	bounded bool // only left bytes more are the job's
	left    int

	// Only the reactor changes these, holding mu; others look at them holding it. It is never held
	// while a pipe or a file is read or written.
	mu   sync.Mutex
	kept []byte // what is in it stays as it is: it only grows
	size int64
	tail *tail // nil: nobody follows

	followed atomic.Int64 // the uptime until which somebody follows; 0: nobody does
}

// rest is what all captures share for the bytes that they don't keep. It is the reactor's alone.
type rest struct {
	sink   int  // /dev/null, to write
	copies bool // this kernel moves nothing from a pipe to the sink, so the bytes are read
	tails  []*capture
}

// scratchSize is how much one read brings: what a pipe usually holds.
const scratchSize = 64 << 10

// turnBytes is how much of one pipe is read before the others have their turn.
const turnBytes = 256 << 10

// read reads what the pipe has, a turn's share at most, and closes it at its end. With drain it
// reads until the pipe is empty; without, it stops at the first read that was not full, and the
// epoll tells when there is more.
func (c *capture) read(scratch []byte, drain bool) {
	for budget := turnBytes; budget > 0 && !c.closed && c.may(1) > 0; {
		n, asked, err := c.readOnce(scratch)
		budget -= n
		c.left -= n
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return
		case err != nil || n == 0:
			c.hungUp = true
			c.close()
		case n < asked && !drain:
			return
		}
	}
}

// may is how many of n bytes may be read.
func (c *capture) may(n int) int {
	if c.bounded {
		return min(n, c.left)
	}
	return n
}

// readOnce reads into the kept buffer where that has room, else into scratch. So a little output
// costs one allocation of its size, and no output costs none.
func (c *capture) readOnce(scratch []byte) (n, asked int, err error) {
	room := c.kept[len(c.kept):cap(c.kept)]
	room, scratch = room[:c.may(len(room))], scratch[:c.may(len(scratch))]
	switch full := len(c.kept) == c.limit; {
	case len(room) > 0:
		n, err = unix.Read(c.pipe, room)
		n, asked = max(n, 0), len(room)
		c.mu.Lock()
		c.kept = c.kept[:len(c.kept)+n]
	case full && !c.follows() && !c.rest.copies:
		n, err = c.discard()
		asked = turnBytes
		c.mu.Lock()
	default:
		n, err = unix.Read(c.pipe, scratch)
		n, asked = max(n, 0), len(scratch)
		more := len(c.kept)+n > c.limit && c.follows()
		c.mu.Lock()
		beyond := c.keep(scratch[:n])
		if more {
			c.tail.add(beyond, c.size+int64(n-len(beyond)))
		}
	}
	c.size += int64(n)
	c.mu.Unlock()
	return n, asked, err
}

// discard lets the kernel move what is not kept to the sink, uncopied.
func (c *capture) discard() (n int, err error) {
	moved, err := unix.Splice(c.pipe, nil, c.rest.sink, nil, c.may(turnBytes), unix.SPLICE_F_NONBLOCK)
	if err != nil && err != unix.EAGAIN && err != unix.EINTR {
		c.rest.copies = true
		return 0, unix.EINTR // try again, by reading
	}
	return max(int(moved), 0), err
}

// keep copies output into a buffer that grows, but never beyond the limit, and gives what is beyond
// it. Callers must hold c.mu.
func (c *capture) keep(output []byte) (beyond []byte) {
	room := min(len(output), c.limit-len(c.kept))
	more, beyond := output[:room], output[room:]
	if len(more) == 0 {
		return beyond
	}
	size := min(max(4*cap(c.kept), len(c.kept)+len(more)), c.limit)
	kept := make([]byte, len(c.kept), size)
	copy(kept, c.kept)
	c.kept = append(kept, more...)
	return beyond
}

func (c *capture) open() bool { return !c.closed }

// close closes the pipe and takes it out of the epoll. Closing alone would leave it there as long
// as a child that does not execute its program yet has a copy.
func (c *capture) close() {
	if c.closed {
		return
	}
	c.closed = true
	c.rest.tails = slices.DeleteFunc(c.rest.tails, func(other *capture) bool { return other == c })
	if c.epoll != 0 {
		_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, c.pipe, nil) // it is there
	}
	if !c.shared {
		unix.Close(c.pipe)
	}
}

func (c *capture) output() journal.Output { return journal.Output{Kept: c.kept, Size: c.size} }
