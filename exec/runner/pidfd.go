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
	return raw.Read(func(fd uintptr) bool {
		readable := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(readable, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// alive tells whether the process has not ended yet.
func alive(pidfd *os.File) bool {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return false
	}
	sent := os.ErrProcessDone
	err = raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), 0, nil, 0) })
	return err == nil && sent == nil
}
