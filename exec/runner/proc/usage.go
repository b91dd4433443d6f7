package proc

import (
	"bytes"
	"io"
	"maps"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what the processes of a group have used of the machine.
type Usage struct {
	StartTime uint64        // of the group's leader
	CPU       time.Duration // of all that live, with their children that were waited for
	Memory    int64         // resident bytes; what several share counts for each
	Processes int
}

// Meter measures process groups. It looks at all processes at once, because the kernel keeps no
// sums for groups, and only when somebody asks. A look at 1,000 processes takes some milliseconds;
// so its result is kept, and the next one is taken no sooner than restShare times as long as the
// last one took, and leastRest after it. Its methods are safe for concurrent use.
type Meter struct {
	mu     sync.Mutex
	groups map[int]Usage
	due    time.Time // before that nobody looks again
}

// At most one part in restShare of a processor is spent on looking.
const (
	restShare = 1000
	leastRest = time.Second
)

// Groups gives the groups whose leaders can be seen, by process group id. Of a group whose leader
// is gone, or hidden (mount option hidepid), nothing is known.
func (m *Meter) Groups() map[int]Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	began := time.Now()
	if began.Before(m.due) {
		return m.groups
	}
	groups, err := measure("/proc")
	if err != nil {
		groups = nil
	}
	m.groups = groups
	took := time.Since(began)
	m.due = began.Add(took + max(restShare*took, leastRest))
	return m.groups
}

// longestStat is more than the kernel writes about a process.
const longestStat = 1024

// measure looks at every process that a folder like /proc shows.
func measure(dir string) (map[int]Usage, error) {
	groups := make(map[int]Usage)
	err := all(dir, func(pid int, one Relatives) {
		sum := groups[one.Group]
		sum.CPU += one.cpu
		sum.Memory += one.Memory
		sum.Processes++
		if pid == one.Group {
			sum.StartTime = one.StartTime
		}
		groups[one.Group] = sum
	})
	if err != nil {
		return nil, err
	}
	// Nothing is known of a group whose leader is gone.
	maps.DeleteFunc(groups, func(_ int, sum Usage) bool { return sum.StartTime == 0 })
	return groups, nil
}

// all looks at every process that a folder like /proc shows.
func all(dir string, look func(pid int, one Relatives)) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	var buffer [longestStat]byte
	for {
		names, err := folder.Readdirnames(1000)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				if one, ok := parseStat(statOf(int(folder.Fd()), name, buffer[:])); ok {
					look(pid, one)
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// statOf reads what the kernel says of a process; nothing where that is gone or hidden. The runner asks for
// each job that is forked: os.ReadFile took a seventh of its time.
func statOf(folder int, pid string, buffer []byte) []byte {
	fd, err := unix.Openat(folder, pid+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buffer)
	if err != nil {
		return nil
	}
	return buffer[:n]
}

// The fields of a stat file behind the second one, the name, counted from 0.
const (
	statState  = 0
	statParent = 1
	statGroup  = 2
	statTimes  = 11 // utime, stime, cutime, cstime
	statStart  = 19
	statMemory = 21
)

// parseStat reads a stat file. The name may itself hold spaces and parentheses.
func parseStat(stat []byte) (r Relatives, ok bool) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= statMemory {
		return r, false
	}
	number := func(field int) int64 {
		n, _ := strconv.ParseInt(string(fields[field]), 10, 64) // the kernel writes no others
		return n
	}
	for i := range 4 {
		r.cpu += time.Duration(number(statTimes+i) * Tick)
	}
	r.Parent, r.Group, r.StartTime = int(number(statParent)), int(number(statGroup)), uint64(number(statStart))
	r.Memory = number(statMemory) * int64(os.Getpagesize())
	state := fields[statState][0]
	r.Ended, r.Stopped = state == 'Z' || state == 'X', state == 'T'
	return r, r.Group > 0
}
