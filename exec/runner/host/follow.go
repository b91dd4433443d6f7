package host

import (
	"slices"
	"time"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// Whoever follows a job asks for what it has written, from an offset on, again and again. What is
// kept is there anyway. What is beyond is dropped unread as long as nobody looks; while somebody
// has asked within the last followTime, the newest tailSize bytes of it are there, too. Nobody
// waits for a follower: who asks too late is told how much is missing.

// followTime is how long a question counts.
const followTime = int64(5 * time.Second)

// tailSize is how much of what is beyond the limit one follower can be behind, mostTails how many
// streams have so much at once.
const (
	tailSize  = 64 << 10
	mostTails = 128
)

// mostPeeked is how much of a stream one answer has.
const mostPeeked = 64 << 10

// tail is the newest of a stream: the bytes from begin to end, each at its offset modulo tailSize.
type tail struct {
	ring       [tailSize]byte
	begin, end int64
}

// add puts more behind the rest. Where something between was not seen, it begins anew.
func (t *tail) add(more []byte, at int64) {
	if at != t.end {
		t.begin = at
	}
	t.end = at + int64(len(more))
	more = more[max(0, len(more)-tailSize):]
	for first := t.end - int64(len(more)); len(more) > 0; {
		n := copy(t.ring[first%tailSize:], more)
		more, first = more[n:], first+int64(n)
	}
	t.begin = max(t.begin, t.end-tailSize)
}

// part copies what there is from one offset to another.
func (t *tail) part(from, to int64) []byte {
	part := make([]byte, 0, to-from)
	for from < to {
		at := from % tailSize
		n := min(to-from, tailSize-at)
		part, from = append(part, t.ring[at:at+n]...), from+n
	}
	return part
}

// follows tells whether what is beyond the limit goes into the tail. It is the reactor's.
func (c *capture) follows() bool {
	until := c.followed.Load()
	if until == 0 {
		return false
	}
	if proc.Uptime() >= until {
		c.unfollow()
		c.followed.CompareAndSwap(until, 0)
		return false
	}
	if c.tail != nil {
		return true
	}
	if len(c.rest.tails) >= mostTails {
		for _, other := range slices.Clone(c.rest.tails) {
			if proc.Uptime() >= other.followed.Load() {
				other.unfollow()
			}
		}
	}
	if len(c.rest.tails) >= mostTails {
		return false
	}
	c.rest.tails = append(c.rest.tails, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = &tail{begin: c.size, end: c.size}
	return true
}

// unfollow drops the tail.
func (c *capture) unfollow() {
	c.rest.tails = slices.DeleteFunc(c.rest.tails, func(other *capture) bool { return other == c })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tail = nil
}

// peek gives what a job has written, from an offset on, and counts as following it. Any goroutine
// may call it.
func (c *capture) peek(from int64, most int) wire.Part {
	c.followed.Store(proc.Uptime() + followTime)
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := int64(len(c.kept))
	begin, end := kept, kept // of the tail
	if c.tail != nil && c.tail.end > c.tail.begin {
		begin, end = c.tail.begin, c.tail.end
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
		return wire.Part{At: from, Bytes: c.tail.part(from, min(from+length, end)), Size: c.size}
	}
	return wire.Part{At: c.size, Size: c.size}
}

// peek answers the worker what a job has written.
func (a *jobs) peek(id wire.ID, look *wire.Glance) {
	a.mu.Lock()
	var c *child
	if j := a.known[id]; j != nil {
		c = j.child
	}
	a.mu.Unlock()
	answer := wire.Message{Kind: wire.Peeked, ID: id, Peek: &wire.Glance{}}
	if c == nil {
		answer.Text = unknownJob
	} else {
		answer.Peek.Parts = [2]wire.Part{c.stdout.peek(look.From[0], look.Most), c.stderr.peek(look.From[1], look.Most)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.send(answer)
}

// unknownJob is why nothing is told of a job.
const unknownJob = "the runner has no such job"
