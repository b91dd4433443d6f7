package runner

import (
	"golang.org/x/sys/unix"

	"jobd/journal"
)

// capture reads a pipe to its end, keeps its beginning and counts the rest.
type capture struct {
	pipe   int  // the end that is read, which never waits
	wide   bool // it was made to hold more
	closed bool // after the end, or an error
	epoll  int  // the one that it is in; 0: none
	limit  int
	kept   []byte
	size   int64
	rest   *rest
}

// rest is what captures share for what they don't keep. It is the reactor's.
type rest struct {
	sink   int  // /dev/null, to write
	copies bool // this kernel moves nothing from a pipe there, so it is read
	wide   int  // how many pipes hold more than usual
}

// scratchSize is as much as one read brings: what a pipe usually holds.
const scratchSize = 64 << 10

// What pipes hold of jobs that write more than is kept, so that these and the reactor wait less for each other, and how
// many do at once: what a user's pipes may hold together is bounded (pipe(7), pipe-user-pages-soft), and beyond that all new
// ones are small.
const (
	wideSize = 256 << 10
	mostWide = 32
)

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
	switch {
	case len(room) > 0:
		n, err = unix.Read(c.pipe, room)
		n, asked = max(n, 0), len(room)
		c.kept = c.kept[:len(c.kept)+n]
	case len(c.kept) == c.limit && !c.rest.copies:
		n, err = c.discard()
		asked = turnBytes
	default:
		n, err = unix.Read(c.pipe, scratch)
		n, asked = max(n, 0), len(scratch)
		c.keep(scratch[:n])
	}
	c.size += int64(n)
	return n, asked, err
}

// widen makes the pipe hold more, once. It may be refused, which does no harm. It must come before a splice: kernels
// before 6.8 may leave a writer asleep that waits for a full pipe while it is made larger, and reading does not
// wake it, but a splice does.
func (c *capture) widen() {
	if !c.wide && c.rest.wide < mostWide {
		c.wide = true
		c.rest.wide++
		_, _ = unix.FcntlInt(uintptr(c.pipe), unix.F_SETPIPE_SZ, wideSize)
	}
}

// discard has the kernel pass on what is not kept, uncopied.
func (c *capture) discard() (n int, err error) {
	c.widen()
	moved, err := unix.Splice(c.pipe, nil, c.rest.sink, nil, turnBytes, unix.SPLICE_F_NONBLOCK)
	if err != nil && err != unix.EAGAIN && err != unix.EINTR {
		c.rest.copies = true
		return 0, unix.EINTR // try again, by reading
	}
	return max(int(moved), 0), err
}

// keep copies output into a buffer that grows, but never beyond the limit.
func (c *capture) keep(more []byte) {
	more = more[:min(len(more), c.limit-len(c.kept))]
	if len(more) == 0 {
		return
	}
	size := min(max(4*cap(c.kept), len(c.kept)+len(more)), c.limit)
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
	if c.wide {
		c.rest.wide--
	}
	if c.epoll != 0 {
		_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, c.pipe, nil) // it is there
	}
	unix.Close(c.pipe)
}

func (c *capture) output() journal.Output { return journal.Output{Kept: c.kept, Size: c.size} }
