package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/logging"
	jobnet "jobd/net"
	"jobd/net/principal"
)

// Address looks whether a daemon could listen on host:port. runs says in words which daemon runs
// with this configuration already, "" where none is known.
func (m *Mode) Address(ctx context.Context, address string, runs func() string) []Finding {
	return m.inUse("address "+address, "keys host and port", address, tryTCP(address), runs, func() bool { return pings(ctx, address) })
}

// Socket looks whether a daemon could listen on a unix socket.
func (m *Mode) Socket(ctx context.Context, path string, runs func() string) []Finding {
	return m.inUse("listen_unix "+path, "key listen_unix", path, tryHTTP(conf.HTTP{Network: "unix", Address: path}), runs, func() bool { return pings(ctx, path) })
}

// HTTP looks whether a daemon could listen where a key says: http_listen or gearman_listen.
func (m *Mode) HTTP(key string, at conf.HTTP, runs func() string) []Finding {
	return m.inUse(key+" "+at.Address, "key "+key, at.Address, tryHTTP(at), runs, func() bool { return true })
}

// inUse says how an address is, by the error of a try to take it. At a restart the worker that asks
// makes room on what it holds. Else isOurs tells whether a daemon of jobd may have it.
func (m *Mode) inUse(what, keys, address string, err error, runs func() string, isOurs func() bool) []Finding {
	f := Finding{Level: Wrong, What: what, Detail: "in use by another program", Remedy: "give another address (" + keys + ")", Ends: true}
	switch start := m.Served != ""; {
	case err == nil:
		f = Finding{What: what, Detail: "free"}
	case !errors.Is(err, unix.EADDRINUSE):
		f.Detail, f.Remedy = err.Error(), "mend the "+keys
	case start && m.makesRoom(address):
		f = Finding{What: what, Detail: "in use by the worker that restarts"}
	case start && m.Held != "" || !start && !isOurs():
	case runs() != "" && !start:
		f = Finding{What: what, Detail: "in use by " + runs()}
	default:
		f.Level, f.Ends, f.Detail, f.Remedy = Warning, false, "in use by a daemon of jobd, perhaps", "if it is another one, "+f.Remedy
	}
	return []Finding{f}
}

// pings tells whether one of jobd's daemons listens there.
func pings(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	link, err := jobnet.Connect(ctx, address, jobnet.LinkConfig{})
	if err != nil {
		return false
	}
	defer link.Close()
	go func() { _ = link.Run(ctx) }()
	err = link.Ping(ctx)
	return err == nil || strings.Contains(err.Error(), jobnet.PlainRefused)
}

// Certificate looks whether the files of a daemon that offers TLS can be used.
func Certificate(tls conf.TLS) []Finding {
	f := Finding{What: "certificate " + tls.Files.Cert, Detail: "fits its key"}
	doubts, err := tls.Files.Check()
	switch {
	case err != nil:
		f.Level, f.Ends, f.Detail, f.Remedy = Wrong, true, err.Error(), "mend the keys tls_cert, tls_key and tls_client_ca"
	case doubts != "":
		f.Level, f.Detail, f.Remedy = Warning, doubts, "renew it: it needs the names and addresses by which clients call the daemon"
	}
	findings := []Finding{f}
	if info, err := os.Stat(tls.Files.Key); err == nil && info.Mode().Perm()&0o007 != 0 {
		findings = append(findings, Finding{
			Level: Warning, What: "tls_key " + tls.Files.Key, Detail: "every account of this host can use it",
			Remedy: "give it mode 0600, or 0640 with the daemon's group",
		})
	}
	return findings
}

// Principals looks whether a file of principals can be used.
func Principals(path string) []Finding {
	f := Finding{What: "principals_file " + path}
	keeper, err := principal.Open(path, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Level, f.Ends, f.Detail, f.Remedy = Wrong, true, err.Error(), "mend the file; docs/security.md shows one"
		return []Finding{f}
	}
	f.Detail = fmt.Sprintf("credentials: %d", keeper.Lines())
	return []Finding{f}
}

// tryTCP takes an address for a moment.
func tryTCP(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return listener.Close()
}

// tryHTTP takes the address for a moment. A unix socket that is there and
// that nobody answers is no hindrance: a start replaces it.
func tryHTTP(at conf.HTTP) error {
	if at.Network == "tcp" {
		return tryTCP(at.Address)
	}
	info, err := os.Lstat(at.Address)
	switch folder := filepath.Dir(at.Address); {
	case errors.Is(err, fs.ErrNotExist):
		if err := unix.Access(folder, unix.W_OK|unix.X_OK); err != nil {
			return &fs.PathError{Op: "make a socket in", Path: folder, Err: err}
		}
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there, and is no socket", at.Address)
	}
	conn, err := net.Dial("unix", at.Address)
	switch {
	case err == nil:
		conn.Close()
		return unix.EADDRINUSE
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	}
	return err
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
