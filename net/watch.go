package net

import (
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
