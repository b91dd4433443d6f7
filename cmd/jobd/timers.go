package main

import (
	"runtime"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/signals"
)

// timerSlack is how many nanoseconds late the timers of this process may ring.
//
// While anything happens, the monitor thread of the Go runtime wakes every 20 µs, to find nothing mostly; under
// load that took a third of a worker's processor time. Timers that may ring late share their wake-ups, and
// nothing here needs them to be more precise than this. Jobs get the usual 50 µs (exec/runner).
const timerSlack = 1_000_000

// relaxTimers starts this program anew, in the same process, with timers that may ring late: the monitor is there
// before main is, and only what a thread starts inherits its slack. Where that can't be done the worker
// goes on as it is.
func relaxTimers(args, environ []string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack >= timerSlack {
		return
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0); err != nil {
		return
	}
	// Some schedulers keep what they had: then it would be asked for again and again.
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack < timerSlack {
		return
	}
	if signals.Waiting() { // it has a stop to come to
		return
	}
	_ = signals.Become("/proc/self/exe", args, environ)
}
