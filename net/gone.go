package net

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// A peer from which nothing more comes has closed its half of the connection, as many clients do
// after their last request, and reads on; or its process has ended. Both look the same until
// something is sent: the system of a process that has ended answers that with a reset. So a space
// is sent, which says nothing: JSON may have any number of them before a value.
var nothing = []byte(" ")

// When a peer that said its last gets a space: soon, so that an end is noticed at once, and then
// from time to time.
const (
	firstSpace = 50 * time.Millisecond
	nextSpace  = 5 * time.Second
)

// hearOut answers what a peer that says no more has asked, for as long as it takes bytes.
func (l *Link) hearOut(tcp *net.TCPConn) {
	if len(l.slots) == 0 && l.out.idle() {
		return
	}
	_ = tcp.SetReadDeadline(time.Time{})
	l.tasks.Go(func() { l.end(awaitReset(tcp)) })
	l.tasks.Go(func() {
		for interval := firstSpace; ; interval = nextSpace {
			select {
			case <-time.After(interval):
				if l.out.idle() { // what is under way asks as much of the peer's system
					_, _, _ = l.out.tryPut(nothing)
				}
			case <-l.Done():
				return
			}
		}
	})
	l.finishRequests(l.ctx)
}

var errGone = errors.New("peer is gone")

// awaitReset tells how the connection ended, when the peer is known to be gone or it was closed
// here.
func awaitReset(tcp *net.TCPConn) error {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var reason syscall.Errno
	err = raw.Read(func(fd uintptr) bool { // called again whenever something happens to the connection
		number, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		reason = syscall.Errno(number)
		return err != nil || number != 0
	})
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errGone, reason)
}
