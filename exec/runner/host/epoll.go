package host

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// epoll waits for many descriptors at once, and for wakes.
type epoll struct {
	fd    int
	file  *os.File // for Go's own; its deadline is what wakes
	ready syscall.RawConn
}

// What an event is about, in the upper half of its data; the process id is in the lower.
const (
	aboutTimer = iota
	aboutEnd
	aboutStdout
	aboutStderr
	aboutProcess // the end of a pool process
	aboutAnswers // what it says
)

func newEpoll() (*epoll, error) {
	e := &epoll{}
	var err error
	if e.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(e.fd, true); err != nil { // so that Go waits for it
		return nil, os.NewSyscallError("fcntl", err)
	}
	e.file = os.NewFile(uintptr(e.fd), "epoll")
	e.ready, err = e.file.SyscallConn()
	return e, err
}

// add watches a descriptor. An end is reported once: a closed descriptor stays in the epoll as long
// as a child has a copy, and each child has copies of all until it executes its program.
func (e *epoll) add(fd, about, pid int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(pid), Pad: int32(about)}
	if about == aboutEnd {
		event.Events |= unix.EPOLLONESHOT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &event))
}

// ring wakes the waiting goroutine.
func (e *epoll) ring() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) } // it fails only where it is closed

// run passes events to act in batches, and calls turned after each, and after a ring; it returns when
// turned says that it is over and nothing more is there. An act that returns true left something that the
// epoll will not report: then the next batch follows at once. Run waits with Go's own epoll: Go's monitor
// would look after a thread that waits in the system instead, all the time.
func (e *epoll) run(act func(*unix.EpollEvent) (more bool), turned func() (over bool)) (err error) {
	events := make([]unix.EpollEvent, 128)
	for over := false; !over && err == nil; {
		err = e.ready.Read(func(uintptr) bool {
			for {
				n, err := unix.EpollWait(e.fd, events, 0)
				again := n == len(events) || err == unix.EINTR
				for i := range n {
					again = act(&events[i]) || again
				}
				if over = turned(); !again {
					return over
				}
			}
		})
		if errors.Is(err, os.ErrDeadlineExceeded) { // somebody has rung
			err = e.file.SetReadDeadline(time.Time{})
			over = turned()
		}
	}
	return err
}

func (e *epoll) close() error { return e.file.Close() }
