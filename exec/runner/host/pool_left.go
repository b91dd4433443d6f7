package host

import (
	"fmt"
	"time"
)

// leftAtMost is how long killed processes are waited for. One may hang in a file system.
const leftAtMost = 2 * time.Second

// awaitLeft keeps a process from its next job until something is gone that the job before has left
// behind. That has been killed. But until it is dead it may be writing, into the same pipes by which
// the next job's output comes: a write that waits for room is completed before the signal is acted on.
func (k *kept) awaitLeft(isThere func() bool) {
	const longest = 50 * time.Millisecond
	k.unclean++
	ps := k.pool.pools
	go func() {
		begun, there := time.Now(), true
		for wait := time.Millisecond; there && time.Since(begun) < leftAtMost; wait = min(2*wait, longest) {
			time.Sleep(wait)
			there = isThere()
		}
		ps.do(func() {
			if k.unclean--; ps.kept[k.started.Pid] == k && k.state == idle {
				k.cleans(there)
			}
		})
	}()
}

// cleans throws away what was written after a job's end. What does not die may write at any time.
func (k *kept) cleans(isThere bool) {
	k.strays(fmt.Sprintf("after job %d", k.last))
	if isThere && !k.spent {
		k.pool.pools.warn(k.pool, k, k.last, fmt.Sprintf("something that job %d has left behind does not end, though it is killed: %s is replaced", k.last, k.name()))
		k.due, k.spent = "left", true
	}
	k.pool.dirty = true
}
