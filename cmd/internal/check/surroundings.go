package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/logging"
	jobnet "jobd/net"
)

// Address looks whether a daemon could listen on host:port. It binds the address for a moment,
// without listening, so that nobody can connect in between. served is where a worker listens that
// will make room, "" where there is none. runs says in words which daemon runs with this
// configuration already, "" where none is known; it is asked where the address is in use.
func Address(ctx context.Context, address, served string, runs func() string) []Finding {
	f := Finding{What: "address " + address, Detail: "free"}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err == nil {
		err = bind(resolved)
	}
	switch {
	case err == nil:
	case !errors.Is(err, unix.EADDRINUSE):
		f.Level, f.Ends, f.Detail, f.Remedy = Wrong, true, err.Error(), "mend the keys host and port"
	case served != "" && samePort(resolved, served):
		f.Detail = "in use by the worker that is to start again"
	case served == "" && pings(ctx, address) && runs() != "":
		f.Detail = "in use by " + runs()
	case served == "" && pings(ctx, address):
		f.Level, f.Detail, f.Remedy = Warning, "in use by a daemon of jobd", "if it is another one, give another address (keys host and port)"
	default:
		f.Level, f.Ends, f.Detail, f.Remedy = Wrong, true, "in use by another program", "give another address (keys host and port)"
	}
	return []Finding{f}
}

// pings tells whether one of jobd's daemons answers there.
func pings(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	link, err := jobnet.Connect(ctx, address, jobnet.LinkConfig{})
	if err != nil {
		return false
	}
	defer link.Close()
	go func() { _ = link.Run(ctx) }()
	return link.Ping(ctx) == nil
}

func samePort(address *net.TCPAddr, served string) bool {
	other, err := net.ResolveTCPAddr("tcp", served)
	return err == nil && address.Port == other.Port
}

// bind gives an address to a socket, as net.Listen does, and lets go of it.
func bind(address *net.TCPAddr) error {
	family, socket := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: address.Port})
	switch four := address.IP.To4(); {
	case four != nil:
		family, socket = unix.AF_INET, &unix.SockaddrInet4{Port: address.Port, Addr: [4]byte(four)}
	case len(address.IP) == net.IPv6len:
		six := &unix.SockaddrInet6{Port: address.Port, Addr: [16]byte(address.IP)}
		if zone, err := net.InterfaceByName(address.Zone); err == nil {
			six.ZoneId = uint32(zone.Index)
		}
		socket = six
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) && address.IP == nil {
		family, socket = unix.AF_INET, &unix.SockaddrInet4{Port: address.Port}
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if family == unix.AF_INET6 && address.IP.IsUnspecified() {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) // as far as the system takes both
	}
	return unix.Bind(fd, socket)
}

// LogFile looks whether log_file could be written; "" is none.
func LogFile(path string) []Finding {
	if path == "" {
		return nil
	}
	f := Finding{What: "log_file " + path, Detail: "can be written"}
	err := unix.Access(path, unix.W_OK)
	if errors.Is(err, fs.ErrNotExist) {
		f.Detail = "will be made"
		err = unix.Access(filepath.Dir(path), unix.W_OK|unix.X_OK)
	}
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		err = syscall.EISDIR
	}
	if kind := logging.Kind(path); kind != nil {
		err = kind
	}
	if err != nil {
		return []Finding{{Level: Wrong, What: f.What, Detail: err.Error(), Remedy: "make it writable for this account, or name another file", Ends: true}}
	}
	if free, _, err := Free(filepath.Dir(path)); err == nil && free == 0 {
		f.Level, f.Detail = Warning, "its disk is full; what can't be written is dropped"
	}
	return []Finding{f}
}

// Free is what may still be written on a folder's disk, and its size, in bytes.
func Free(dir string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}
