package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// openPidfd opens a process's descriptor. It keeps meaning this process, whoever gets its number
// later, and becomes readable when the process has ended.
func openPidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// awaitEnd waits for the end of a process. Meanwhile it holds no thread, as the waiting system
// calls would: a thousand jobs are no thousand threads.
func awaitEnd(pidfd *os.File) error {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(isOver)
}

// isOver tells whether the process of a descriptor has ended, be it reaped or not.
func isOver(fd uintptr) bool {
	readable := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(readable, 0)
	return n > 0 || err != nil && err != unix.EINTR
}

// hasEnded tells whether the process has ended.
func hasEnded(pidfd *os.File) bool {
	over := true
	raw, err := pidfd.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { over = isOver(fd) })
	}
	return over || err != nil
}

// wholeGroup has a signal go to the group whose leader a descriptor means (since Linux 6.9).
const wholeGroup = 1 << 2

// signalGroup sends a signal to the group that a process leads, or has led: to no other that has
// its number by now. Older kernels can't: EINVAL.
func signalGroup(pidfd *os.File, signo unix.Signal) error {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	sent := error(os.ErrProcessDone)
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), signo, nil, wholeGroup) }); err != nil {
		return err
	}
	return sent
}
