// Package private keeps a daemon's memory from other processes of its own account, as its jobs are mostly: what it
// was given as environment, and the passwords that it has read.
package private

import (
	"fmt"
	"syscall"
)

// setDumpable is prctl's PR_SET_DUMPABLE.
const setDumpable = 4

// Hide makes what the kernel tells of this process in /proc/PID root's alone, as are its memory and its descriptors:
// nobody of the same account reads environ, mem or fd there, attaches a debugger or takes descriptors, and
// no core file is written. It lasts until the process executes a program, even its own, so main calls it first of all.
// What the process starts is not hidden by it. Of processes with the right to trace, which root has, nothing is hidden.
func Hide() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setDumpable, 0, 0); errno != 0 {
		return fmt.Errorf("hide this process from its jobs: %w", errno)
	}
	return nil
}
