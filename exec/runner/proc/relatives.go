package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Relatives is where a process stands among others.
type Relatives struct {
	Parent, Group int
	StartTime     uint64
	Memory        int64 // resident bytes
	Ended         bool  // it is not reaped
}

// RelativesOf looks at one process. It fails where there is none.
func RelativesOf(pid int) (r Relatives, ok bool) {
	var buffer [longestStat]byte
	return relatives(statOfPid(pid, buffer[:]))
}

// relatives reads a stat file.
func relatives(stat []byte) (r Relatives, ok bool) {
	m, ok := parseStat(stat)
	if !ok {
		return r, false
	}
	return Relatives{m.parent, m.group, m.StartTime, m.Memory, m.state == 'Z' || m.state == 'X'}, true
}

// Program is the name of a process's program; "gone" where there is none.
func Program(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "gone"
	}
	return strings.TrimSuffix(string(name), "\n")
}

// Children lists the processes that have this parent. It looks at all processes, which takes some
// milliseconds for a thousand.
func Children(parent int) (children []int) {
	all(func(pid int, stat []byte) {
		if r, ok := relatives(stat); ok && r.Parent == parent {
			children = append(children, pid)
		}
	})
	return children
}

// all looks at every process that there is.
func all(look func(pid int, stat []byte)) {
	folder, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer folder.Close()
	var buffer [longestStat]byte
	for {
		names, err := folder.Readdirnames(1000)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				look(pid, statOf(int(folder.Fd()), name, buffer[:]))
			}
		}
		if err != nil {
			return
		}
	}
}
