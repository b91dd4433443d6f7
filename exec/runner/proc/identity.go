package proc

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
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
