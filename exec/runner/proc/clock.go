package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

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
