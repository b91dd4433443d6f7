package proctest

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
)

// Connected is two ends of a connection.
func Connected(t testing.TB) (near, far *net.UnixConn) {
	t.Helper()
	ends := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	var conns [2]*net.UnixConn
	for i, fd := range ends {
		file := os.NewFile(uintptr(fd), "socket")
		conn := must.Get(net.FileConn(file))(t)
		file.Close()
		conns[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { conn.Close() })
	}
	return conns[0], conns[1]
}
