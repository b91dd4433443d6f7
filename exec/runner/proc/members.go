package proc

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Member is a process of a group.
type Member struct{ Pid, Group int }

// Members lists the processes of groups that can be seen, those that lead them, too. It looks at
// all processes, which takes some milliseconds for a thousand.
func Members(groups map[int]bool) (members []Member) {
	all(func(pid int, stat []byte) {
		if one, ok := parseStat(stat); ok && groups[one.group] {
			members = append(members, Member{pid, one.group})
		}
	})
	return members
}

// IsAlive tells whether a group has a process that has not ended. It mostly asks the kernel only, and
// looks at all processes where that shows somebody, who may be dead and not yet reaped.
func IsAlive(group int) (alive bool) {
	if err := unix.Kill(-group, 0); err == unix.ESRCH {
		return false
	}
	all(func(_ int, stat []byte) {
		one, ok := parseStat(stat)
		alive = alive || ok && one.group == group && one.state != 'Z' && one.state != 'X'
	})
	return alive
}

// Children lists the processes that have this parent. It looks at all processes, too.
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
