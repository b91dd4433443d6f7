package proc

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The capabilities of worker and runner are three at most, and there so that jobs can have an account of
// their own. A job never has one: whatever a process executes begins with those that are ambient, so each
// of ours makes none ambient (KeepCapabilities), but for the runner that a worker starts and for the program
// that takes this one's place.

// usedCapabilities are those that other accounts for jobs need: to change to them, and to signal them.
var usedCapabilities = []struct {
	name string
	is   uintptr
}{{"CAP_SETUID", unix.CAP_SETUID}, {"CAP_SETGID", unix.CAP_SETGID}, {"CAP_KILL", unix.CAP_KILL}}

// capabilities are those of a thread. All that we use are in the first half.
type capabilities [2]unix.CapUserData

// The kernel writes to it only where it knows no such version.
var capabilityHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}

func capabilitiesHere() (c capabilities, err error) {
	err = os.NewSyscallError("capget", unix.Capget(&capabilityHeader, &c[0]))
	return c, err
}

func (c capabilities) set() error {
	return os.NewSyscallError("capset", unix.Capset(&capabilityHeader, &c[0]))
}

// KeepCapabilities keeps the capabilities of this process, on all of its threads, from whatever it
// executes. What is not inheritable is not ambient either.
func KeepCapabilities() error {
	c, err := capabilitiesHere()
	if err != nil || c[0].Inheritable|c[1].Inheritable == 0 {
		return err
	}
	c[0].Inheritable, c[1].Inheritable = 0, 0
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capabilityHeader)), uintptr(unsafe.Pointer(&c[0])), 0)
	if errno != 0 {
		return fmt.Errorf("keep capabilities from jobs: %w", errno)
	}
	return nil
}

// MissingCapabilities names those without which no job can have another account.
func MissingCapabilities() (names []string) {
	c, _ := capabilitiesHere() // without it none is there
	for _, used := range usedCapabilities {
		if c[0].Effective&(1<<used.is) == 0 {
			names = append(names, used.name)
		}
	}
	return names
}

// PassedCapabilities are those that a successor of this process gets from it, which has them ambient. What
// root executes has them anyway.
func PassedCapabilities() (passed []uintptr) {
	c, _ := capabilitiesHere()
	for _, used := range usedCapabilities {
		if os.Geteuid() != 0 && c[0].Permitted&(1<<used.is) != 0 {
			passed = append(passed, used.is)
		}
	}
	return passed
}

// PassCapabilities calls execute, which puts a successor in this process's place.
func PassCapabilities(execute func() error) error {
	passed := PassedCapabilities()
	if len(passed) == 0 {
		return execute()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := capabilitiesHere()
	if err != nil {
		return err
	}
	defer func() { _ = c.set() }() // less may always be set
	raised := c
	for _, one := range passed {
		raised[0].Inheritable |= 1 << one
	}
	if err := raised.set(); err != nil {
		return err
	}
	for _, one := range passed {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, one, 0, 0); err != nil {
			return os.NewSyscallError("prctl", err)
		}
	}
	return execute()
}
