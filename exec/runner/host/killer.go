package host

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// killer finds out who may have sent a SIGKILL that this runner did not send. It may be used by
// many goroutines.
type killer struct {
	known atomic.Int64 // how often the kernel had killed for want of memory when it was last asked
}

// look asks the kernel.
func (k *killer) look() int64 {
	now := oomKills()
	k.known.Store(now)
	return now
}

// who is a note about a job that a SIGKILL ended, and that was started when before was known.
func (k *killer) who(before int64) string {
	if k.look() > before {
		return "killed, probably by the kernel: it has run out of memory meanwhile"
	}
	return "killed by a SIGKILL that was not jobd's"
}

// oomKills is how often the kernel has killed a process for want of memory since the boot; 0 where
// it does not tell.
func oomKills() int64 {
	stat, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(stat)) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
			return n
		}
	}
	return 0
}
