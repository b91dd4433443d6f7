package net

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"
)

// How a link's peer is watched while nothing is said: its host may be gone without a word.
var watching = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// tcpUserTimeout is for how many milliseconds Linux waits for what was sent to be acknowledged.
const tcpUserTimeout = 18

// watch has the kernel notice when the peer's host is gone, whether or not something is under way
// to it.
func watch(conn net.Conn, timeout time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetKeepAliveConfig(watching) // where it fails, the link is dropped later
	raw, err := tcp.SyscallConn()
	if err != nil || runtime.GOOS != "linux" {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(timeout.Milliseconds()))
	})
}

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
