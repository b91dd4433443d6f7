package runner

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// While a Go program does anything its runtime's monitor wakes every 20 µs, and more often than not finds nothing to do: in a
// runner that cost a fifth of the processor time. How late a thread's timers may ring, so that one wake-up
// serves several, is inherited by what it starts; so a runner is started with runnerSlack, and gives
// its jobs what the kernel gives everybody.
const (
	runnerSlack = 1_000_000 // nanoseconds
	usualSlack  = 50_000
)

// withSlack calls start, which forks, on a thread whose timers may ring late by so much; the
// child inherits that. Where the kernel does not let us, the child has what we have.
func withSlack(nanoseconds int, start func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || before == nanoseconds {
		return start()
	}
	if unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(nanoseconds), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(before), 0, 0, 0) }()
	}
	return start()
}
