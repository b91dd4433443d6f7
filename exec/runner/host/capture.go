package host

import (
	"bytes"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// capture reads a pipe to its end, keeps the beginning of what it reads and counts the rest. While
// somebody follows the job, it has the newest of the rest, too.
type capture struct {
	pipe   int  // the end that is read; reading never waits
	closed bool // after the end, or an error
	epoll  int  // the one that it is in; 0: none
	limit  int  // how much is kept

	// Of a pipe that a pool process has for one job after the other.
	shared bool // it is not closed with the capture
	hungUp bool // nobody can write into it any more

	// The reactor changes these, but for followed, holding mu; others look at them holding it. It is
	// never held while a pipe or a file is read or written.
	mu       sync.Mutex
	kept     []byte // what is in it stays as it is: it only grows
	size     int64
	tail     []byte // the newest bytes beyond the limit, up to size; empty while nobody follows
	followed int64  // the uptime until which somebody follows
}

// scratchSize is how much one read brings: what a pipe usually holds.
const scratchSize = 64 << 10

// turnBytes is how much of one pipe is read before the others have their turn.
const turnBytes = 256 << 10

// read reads what the pipe has, a turn's share at most, and closes it at its end. With drain it
// reads until the pipe is empty; without, it stops at the first read that was not full, and the
// epoll tells when there is more.
func (c *capture) read(scratch []byte, drain bool) {
	for budget := turnBytes; budget > 0 && !c.closed; {
		n := c.readOnce(scratch)
		if budget -= n; n == 0 || n < len(scratch) && !drain {
			return
		}
	}
}

// leave reads what is in the pipe now, no more, and leaves it.
func (c *capture) leave(scratch []byte) {
	if !c.closed {
		c.readPending(scratch)
		c.close()
	}
}

func (c *capture) readPending(scratch []byte) {
	for left := pending(c.pipe); left > 0; {
		n := c.readOnce(scratch[:min(left, len(scratch))])
		if left -= n; n == 0 {
			return // somebody else has read it
		}
	}
}

// readOnce gives how many bytes it has read; 0: there are none now. At its end the pipe is closed.
func (c *capture) readOnce(scratch []byte) int {
	n, err := unix.Read(c.pipe, scratch)
	for err == unix.EINTR {
		n, err = unix.Read(c.pipe, scratch)
	}
	switch {
	case err == unix.EAGAIN:
		return 0
	case err != nil || n == 0:
		c.hungUp = true
		c.close()
		return 0
	}
	c.take(scratch[:n])
	return n
}

// pending is how many bytes are in a pipe.
func pending(pipe int) int {
	n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// take counts what was read, and keeps of it as much as the limit allows.
func (c *capture) take(output []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size += int64(len(output))
	beyond := c.keep(output)
	switch {
	case len(beyond) == 0 || c.followed == 0:
	case proc.Uptime() < c.followed:
		c.tail = append(c.tail, beyond...)
		if over := len(c.tail) - tailSize; over > 0 {
			c.tail = append(c.tail[:0], c.tail[over:]...)
		}
	default:
		c.tail, c.followed = nil, 0
	}
}

// keep copies output into a buffer that grows, but never beyond the limit, and gives what is beyond
// it. Callers must hold c.mu.
func (c *capture) keep(output []byte) (beyond []byte) {
	room := min(len(output), c.limit-len(c.kept))
	more, beyond := output[:room], output[room:]
	if len(more) == 0 {
		return beyond
	}
	if need := len(c.kept) + len(more); need > cap(c.kept) {
		kept := make([]byte, len(c.kept), min(max(4*cap(c.kept), need), c.limit))
		copy(kept, c.kept)
		c.kept = kept
	}
	c.kept = append(c.kept, more...)
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
	if c.epoll != 0 {
		_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, c.pipe, nil) // it is there
	}
	if !c.shared {
		unix.Close(c.pipe)
	}
}

func (c *capture) output() journal.Output { return journal.Output{Kept: c.kept, Size: c.size} }

// A follower of a job asks for what the job has written, from an offset on, again and again. What is
// kept is there anyway. The runner drops what is beyond as long as nobody looks; while somebody has
// asked within the last followTime, it has the newest tailSize bytes of that, too. Nobody waits for a
// follower: one that asks too late hears how much is missing.

// followTime is how long a question counts.
const followTime = int64(5 * time.Second)

// tailSize is how much of what is beyond the limit one follower can be behind.
const tailSize = 64 << 10

// mostPeeked is how much of a stream one answer has.
const mostPeeked = 64 << 10

// peek gives what a job has written, from an offset on, and counts as following it. Any goroutine
// may call it.
func (c *capture) peek(from int64, most int) wire.Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followed = proc.Uptime() + followTime
	kept := int64(len(c.kept))
	begin, end := kept, kept // of the tail
	if len(c.tail) > 0 {
		begin, end = c.size-int64(len(c.tail)), c.size
	}
	if from < 0 {
		if from += end; begin > kept {
			from = max(from, begin)
		}
		from = max(from, 0)
	}
	length := int64(min(most, mostPeeked))
	switch {
	case from < kept:
		return wire.Part{At: from, Bytes: c.kept[from:min(from+length, kept)], Size: c.size}
	case from < end:
		from = max(from, begin)
		return wire.Part{At: from, Bytes: bytes.Clone(c.tail[from-begin : min(from+length, end)-begin]), Size: c.size}
	}
	return wire.Part{At: c.size, Size: c.size}
}
