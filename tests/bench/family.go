package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// member is what the system tells of a process.
type member struct {
	parent int
	used   time.Duration // by it, and by the children whose ends it has seen
}

// members is all processes there are, by their numbers.
func members(p *program) map[int]member {
	all := map[int]member{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	p.must(err)
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // a program's name may hold anything
		fields := strings.Fields(rest)
		number := func(n int) int { // the n-th field, as proc(5) counts
			value, _ := strconv.Atoi(fields[n-3])
			return value
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		all[pid] = member{number(4), time.Duration(number(14)+number(15)+number(16)+number(17)) * 10 * time.Millisecond}
	}
	return all
}

// familyTime is the processor time of processes and of all that come from them, in hundredths of a second.
func familyTime(p *program, roots ...int) (used time.Duration) {
	all := members(p)
	ours := map[int]bool{}
	for _, root := range roots {
		ours[root] = true
	}
	for pid, m := range all {
		line := []int{pid}
		for at := m.parent; at > 1 && !ours[line[len(line)-1]]; at = all[at].parent {
			line = append(line, at)
		}
		if ours[line[len(line)-1]] {
			used += m.used
		}
	}
	return used
}
