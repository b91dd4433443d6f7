package proc

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// BootID is the kernel's name of the current boot.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// StartTime is when a process started, in ticks since the boot; 0 where there is no such process.
func StartTime(pid int) uint64 {
	who, _ := RelativesOf(pid)
	return who.StartTime
}

// Tick is the unit of start times in nanoseconds: Linux's USER_HZ is 100 on whatever Go runs on.
const Tick = int64(10 * time.Millisecond)

// Uptime is the time since the boot in nanoseconds, by the clock of processes' start times.
func Uptime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // it fails only for clocks that there are not
	return t.Nano()
}

// Elapsed is the time between two uptimes in whole microseconds. It is 1 at least: 0 stands for a
// time that nobody knows.
func Elapsed(from, to int64) int64 { return max(1, (to-from)/int64(time.Microsecond)) }

// KeepDescriptors keeps from the processes that this one starts the descriptors that its own parent
// left it. Go keeps those that it opened itself from them anyway.
func KeepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("hide descriptors from jobs: %w", err)
	}
	return nil
}

// While a Go program does anything, its runtime's monitor thread wakes every 20 µs, and mostly
// finds nothing to do: that took a fifth of a runner's processor time, and a third of a worker's.
// Each time it takes a job off a processor, whose caches the job finds cold afterwards. Timers that
// may ring late share their wake-ups, and neither of the two needs them to be more precise. With
// more than this, pools wait for what the monitor has to do. How late timers may ring is a thread's
// timer slack, which the processes that it starts inherit.
const (
	LateTimers  = 2_000_000 // nanoseconds: for workers and runners
	UsualTimers = 50_000    // what the kernel gives everybody: for jobs
)

// WithTimers calls start, which forks, on a thread with so much timer slack, for the child to
// inherit. Where the kernel does not permit that, the child gets what this process has.
func WithTimers(slack int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || before == slack {
		return start()
	}
	if unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0) }()
	}
	return start()
}

// Over tells whether the process of a pidfd has ended, be it reaped or not.
func Over(pidfd int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}

// wholeGroup has a signal go to the group whose leader a pidfd means (since Linux 6.9).
const wholeGroup = 1 << 2

// Signal sends a signal to the group that a child leads, and to the child itself where it has left that.
// It must not be reaped: nobody else has its number until then.
func Signal(pid int, signo unix.Signal) error {
	err := unix.Kill(-pid, signo)
	if hasLeft(pid) {
		err = unix.Kill(pid, signo)
	}
	return err
}

// SignalGroup does so for a process that may be reaped by others, and that a pidfd means, if there is
// one: no other that has its number by now gets the signal.
func SignalGroup(pidfd, pid int, startTime uint64, signo unix.Signal) error {
	err := error(unix.EINVAL)
	if pidfd >= 0 {
		err = unix.PidfdSendSignal(pidfd, signo, nil, wholeGroup)
	}
	if err == unix.EINVAL { // a kernel before 6.9: the group has the process's number as long as that is there
		if at := StartTime(pid); at != 0 && at != startTime {
			return os.ErrProcessDone
		}
		err = unix.Kill(-pid, signo)
	}
	if pidfd >= 0 && hasLeft(pid) && unix.PidfdSendSignal(pidfd, signo, nil, 0) == nil {
		err = nil
	}
	return err
}

// hasLeft tells whether a process that has led a group is in another one.
func hasLeft(pid int) bool {
	group, err := unix.Getpgid(pid)
	return err == nil && group != pid
}

// Relatives is where a process stands among others.
type Relatives struct {
	Parent, Group int
	StartTime     uint64
	cpu           time.Duration // its own, and that of its children that were waited for
	Memory        int64         // resident bytes
	Ended         bool          // it is not reaped
	Stopped       bool          // as by SIGSTOP
}

// RelativesOf looks at one process. It fails where there is none.
func RelativesOf(pid int) (r Relatives, ok bool) {
	var buffer [longestStat]byte
	return parseStat(statOf(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid), buffer[:]))
}

// Program is the name of a process's program; "gone" where there is none.
func Program(pid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "gone"
	}
	return strings.TrimSuffix(string(name), "\n")
}

// Owner is the account of a process. (The owner of its folder is root where the process is not dumpable.)
func Owner(pid int) (uid uint32, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, line, _ := strings.Cut(string(status), "\nUid:")
	_, err = fmt.Sscan(line, &uid)
	return uid, err
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
