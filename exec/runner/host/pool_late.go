package host

import (
	"fmt"
	"time"
)

// standstill is how long after a deadline we come at most, however busy this host is. Where it is
// more we stood still, as with SIGSTOP, or while the host was asleep or moved: then the deadline says
// nothing of the process, which may have stood still with us.
const standstill = int64(time.Second)

// expire acts on a deadline that is over. What the process has said by then counts.
func (k *kept) expire(now int64) {
	late := now - k.deadline
	if k.deadline == 0 || late < 0 {
		return
	}
	if late > standstill {
		k.deadline = now + k.lasts
		return
	}
	since := k.since
	k.pool.pools.hear(k, false)
	if k.since == since && k.deadline != 0 {
		k.deadline = 0
		k.late()
	}
}

// late acts on a state that has lasted for too long.
func (k *kept) late() {
	switch k.state {
	case booting:
		k.unfit(fmt.Sprintf("it was not ready within %s: the line %q on descriptor 4 did not come", k.pool.bootTimeout(), "ready"))
	case asked:
		k.unfit(fmt.Sprintf("it did not answer within %s when it was asked for a job", k.pool.pools.times.answer))
	case leaving:
		k.press()
	}
}
