package host

import (
	"bytes"
	"time"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// Whoever follows a job asks for what it has written, from an offset on, again and again. What is
// kept is there anyway. What is beyond is dropped as long as nobody looks; while somebody has asked
// within the last followTime, the newest tailSize bytes of it are there, too. Nobody waits for a
// follower: who asks too late is told how much is missing.

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

// peek answers the worker what a job has written.
func (a *jobs) peek(id wire.ID, look *wire.Glance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := wire.Message{Kind: wire.Peeked, ID: id, Peek: &wire.Glance{}}
	if j := a.known[id]; j != nil && j.child != nil {
		c := j.child
		answer.Peek.Parts = [2]wire.Part{c.stdout.peek(look.From[0], look.Most), c.stderr.peek(look.From[1], look.Most)}
	} else {
		answer.Text = "the runner has no such job"
	}
	a.send(answer)
}
