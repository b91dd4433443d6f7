package proc

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Relatives is where a process stands among others.
type Relatives struct {
	Parent, Group int
	StartTime     uint64
	CPU           time.Duration // its own, and that of its children that were waited for
	Memory        int64         // resident bytes
	Ended         bool          // it is not reaped
}

// RelativesOf looks at one process. It fails where there is none.
func RelativesOf(pid int) (r Relatives, ok bool) {
	var buffer [longestStat]byte
	return parseStat(statOfPid(pid, buffer[:]))
}

// Program is the name of a process's program; "gone" where there is none.
func Program(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "gone"
	}
	return strings.TrimSuffix(string(name), "\n")
}

// Children are the processes that have this parent. It looks at all processes, which takes some
// milliseconds for a thousand.
func Children(parent int) map[int]Relatives {
	children := make(map[int]Relatives)
	_ = all("/proc", func(pid int, one Relatives) { // without it there are none to be seen
		if one.Parent == parent {
			children[pid] = one
		}
	})
	return children
}
