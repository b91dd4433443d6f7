package net

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// A peer over a unix socket has no address. The kernel names its account and process, as they were
// when it connected, or, of a listener, when it began to listen.

// peerUID is the account of a unix socket's peer; -1 for all others.
func peerUID(conn net.Conn) int {
	if peer := credentials(conn); peer != nil {
		return int(peer.Uid)
	}
	return -1
}

// PeerAddr is the address of a unix socket's peer: its account and process.
type PeerAddr struct{ uid, PID int }

// Network implements net.Addr.
func (PeerAddr) Network() string { return "unix" }

// String implements net.Addr.
func (a PeerAddr) String() string { return fmt.Sprintf("uid %d pid %d", a.uid, a.PID) }

// remoteOf is the address of a peer.
func remoteOf(conn net.Conn) net.Addr {
	if peer := credentials(conn); peer != nil {
		return PeerAddr{int(peer.Uid), int(peer.Pid)}
	}
	return conn.RemoteAddr()
}

// unixPeer knows the text of a PeerAddr.
var unixPeer = regexp.MustCompile(`^uid [0-9]{1,10} pid [0-9]{1,10}$`)

// credentials are those of a unix socket's peer; nil: the kernel names none.
func credentials(conn net.Conn) (peer *syscall.Ucred) {
	local, is := carrierOf(conn).(*net.UnixConn)
	if !is {
		return nil
	}
	if raw, err := local.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			peer, _ = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		})
	}
	return peer
}

// isLocal tells whether a peer is on this host.
func isLocal(conn net.Conn) bool {
	return peerUID(conn) >= 0 || addressOf(conn.RemoteAddr()).IsLoopback()
}

// originOf is what the guard counts as one address: the network of it, or the account of a unix
// socket's peer.
func originOf(conn net.Conn) any {
	if uid := peerUID(conn); uid >= 0 {
		return uid
	}
	return prefixOf(addressOf(conn.RemoteAddr()))
}

// Dial makes a connection to an address: "host:port", or the path of a unix socket. Who listens on
// that must be somebody who may know a password: root, as systemd is, this process's own account, or
// jobd's.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	network := "tcp"
	if isPath(address) {
		network = "unix"
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, dialCause(err)
	}
	if uid := peerUID(conn); network == "unix" && uid != 0 && uid != os.Geteuid() {
		if jobd, err := user.Lookup("jobd"); err != nil || jobd.Uid != strconv.Itoa(uid) {
			_ = conn.Close()
			return nil, fmt.Errorf("uid %d listens there, which is neither root, nor jobd, nor this process's own account: nothing was sent. "+
				"If it is the right one, call it as that account, or by host and port", uid)
		}
	}
	return conn, nil
}

// isPath tells whether an address is a unix socket's path.
func isPath(address string) bool { return strings.HasPrefix(address, "/") }
