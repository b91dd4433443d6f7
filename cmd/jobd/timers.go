package main

import (
	"runtime"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/signals"
	"jobd/exec/runner/proc"
)

// relaxTimers starts this program anew, in the same process, with timers that may ring late: see
// proc.LateTimers. The runtime's monitor thread is there before main is, and only what a thread
// starts inherits its timer slack. Where that can't be done the worker goes on as it is.
func relaxTimers(args, environ []string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack >= proc.LateTimers {
		return
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, proc.LateTimers, 0, 0, 0); err != nil {
		return
	}
	// Some schedulers keep what they had: then the program would start anew again and again.
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack < proc.LateTimers {
		return
	}
	if signals.Waiting() { // the program is to stop
		return
	}
	_ = signals.Become("/proc/self/exe", args, environ)
}
