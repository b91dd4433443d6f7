package runner

import (
	"os"
	"strconv"
	"strings"
)

// killer says who may have sent a SIGKILL that jobd did not send to a job that was
// started when the kernel had killed before times for want of memory.
func (l *Local) killer(before int64) string {
	now := oomKills()
	l.oomKills.Store(now)
	if now > before {
		return "killed, probably by the kernel: it has run out of memory meanwhile"
	}
	return "killed by a SIGKILL that was not jobd's"
}

// oomKills is how often the kernel has killed a process for want of memory since the boot; 0
// where it does not tell.
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
