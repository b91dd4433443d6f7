package freeport

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// all is the book of all tests and demos on this machine.
var all = sync.OnceValue(func() *book {
	low, high := span(kernels())
	return &book{path: filepath.Join(os.TempDir(), "jobd-test-ports"), low: low, high: high}
})

// Take gives a port on 127.0.0.1 that nobody listens on, and that nobody else gets from here.
func Take() (int, error) {
	port, err := all().take()
	if err != nil {
		return 0, fmt.Errorf("reserve a port: %w", err)
	}
	return port, nil
}

// Address is a port with the host that it is reserved on.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// book is a file in which each locked byte is a reserved port. The lock is the kernel's: it ends
// with the process, however that ends, and the process's children do not have it.
type book struct {
	path      string
	low, high int // the ports that it gives

	mu    sync.Mutex
	file  *os.File     // nil before the first port; never closed, which would give up all locks
	ports map[int]bool // that this process has had, or found to be in use
}

func (b *book) take() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		file, err := open(b.path)
		if err != nil {
			return 0, err
		}
		b.file, b.ports = file, map[int]bool{}
	}
	for _, n := range rand.Perm(b.high - b.low + 1) {
		port := b.low + n
		if b.ports[port] {
			continue
		}
		lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(port), Len: 1}
		switch err := unix.FcntlFlock(b.file.Fd(), unix.F_SETLK, &lock); err {
		case nil:
		case unix.EAGAIN, unix.EACCES:
			continue // another process has it
		default:
			return 0, fmt.Errorf("lock a byte of %s: %w", b.path, err)
		}
		b.ports[port] = true
		if listener, err := net.Listen("tcp", Address(port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("none of the ports %d to %d is free", b.low, b.high)
}

// open opens a book's file, which all users of the machine share. It is never removed: a process that
// has it open and one that makes it anew would not see each other.
func open(path string) (*os.File, error) {
	// First without O_CREATE: where the file exists, the kernel may refuse that flag to all but its owner.
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if !os.IsNotExist(err) {
		return file, err
	}
	if file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666); err == nil {
		_ = file.Chmod(0o666) // against the umask; a process that has made it meanwhile has done that
	}
	return file, err
}

// kernels are the lowest and the highest of the ports that the kernel gives to outgoing connections,
// and to programs that listen on port 0.
func kernels() (low, high int) {
	content, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(content), &low, &high)
	}
	if err != nil {
		return 32768, 60999 // what Linux has by itself
	}
	return low, high
}

// span is the ports that are given: those below the kernel's or those above them, whichever are
// more. Where the kernel leaves next to none they are all that an ordinary user may have.
func span(kernelLow, kernelHigh int) (low, high int) {
	const lowest, highest, few = 10000, 65535, 1000
	below, above := kernelLow-lowest, highest-kernelHigh
	switch {
	case max(below, above) < few:
		return lowest, highest
	case below >= above:
		return lowest, kernelLow - 1
	default:
		return kernelHigh + 1, highest
	}
}
