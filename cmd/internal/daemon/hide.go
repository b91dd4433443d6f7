package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// hide makes what the kernel shows of this process in /proc/PID root's alone, and its memory and
// descriptors with it: no process of the same account reads environ, mem or fd there, attaches a
// debugger or takes descriptors, and no core file is written. Jobs, which mostly run as the same
// account, can't read the daemon's passwords then.
//
// It lasts until the process executes a program, even its own, so Main calls it first of all. It
// does not hide what the process starts, and hides nothing from processes with the right to trace,
// which root has.
func hide() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide this process from its jobs: %w", err)
	}
	return nil
}
