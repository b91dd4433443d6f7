package proc

import (
	"os"
	"strconv"
)

// Member is a process of a group.
type Member struct{ Pid, Group int }

// Members lists the processes of groups that can be seen, those that lead them, too. It looks at
// all processes, which takes some milliseconds for a thousand.
func Members(groups map[int]bool) (members []Member) {
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer folder.Close()
	var buffer [longestStat]byte
	for {
		names, err := folder.Readdirnames(1000)
		for _, name := range names {
			pid, noNumber := strconv.Atoi(name)
			if noNumber != nil {
				continue
			}
			if one, ok := parseStat(statOf(int(folder.Fd()), name, buffer[:])); ok && groups[one.group] {
				members = append(members, Member{pid, one.group})
			}
		}
		if err != nil {
			return members
		}
	}
}
