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
	"jobd/cmd/internal/web"
	jobnet "jobd/net"
	"jobd/net/principal"
)

// Address looks whether a daemon could listen on host:port. served is where a worker listens that
// will make room, "" where there is none. runs says in words which daemon runs with this
// configuration already, "" where none is known; it is asked where the address is in use.
func Address(ctx context.Context, address, served string, runs func() string) []Finding {
	return found("address "+address, "keys host and port", tryTCP(address), runs, func() (leaves bool, who string) {
		switch {
		case served != "":
			_, port, _ := net.SplitHostPort(address)
			_, own, _ := net.SplitHostPort(served)
			return port == own, ""
		case pings(ctx, address) >= 0:
			return false, "a daemon of jobd"
		}
		return false, ""
	})
}

// Socket looks whether a daemon could listen on a unix socket. start: the daemon that has started
// this process makes room for it, or the service manager made the socket for both.
func Socket(ctx context.Context, path string, start bool, runs func() string) []Finding {
	return found("listen_unix "+path, "key listen_unix", tryHTTP(conf.HTTP{Network: "unix", Address: path}), runs, func() (leaves bool, who string) {
		switch pid := pings(ctx, path); {
		case start:
			return pid == os.Getppid() || pid == 1, ""
		case pid >= 0:
			return false, "a daemon of jobd"
		}
		return false, ""
	})
}

// HTTP looks whether a daemon could listen where http_listen says. start: the daemon that has
// started this process makes room for it.
func HTTP(ctx context.Context, at conf.HTTP, start bool, runs func() string) []Finding {
	return found("http_listen "+at.Address, "key http_listen", tryHTTP(at), runs, func() (leaves bool, who string) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		report, err := web.Ask(ctx, at)
		switch {
		case err != nil || report.Program == "":
			return false, ""
		case start:
			return report.PID == os.Getppid(), ""
		}
		return false, fmt.Sprintf("%s, process %d", report.Program, report.PID)
	})
}

// Gearman looks whether a worker could listen where gearman_listen says. start: the worker that has started this process
// makes room for it.
func Gearman(ctx context.Context, at conf.HTTP, start bool, runs func() string) []Finding {
	return found("gearman_listen "+at.Address, "key gearman_listen", tryHTTP(at), runs, func() (leaves bool, who string) {
		pid := gearmanPID(ctx, at)
		program, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		switch {
		case start:
			return pid == os.Getppid(), ""
		case err == nil && strings.TrimSpace(string(program)) == "jobd":
			return false, fmt.Sprintf("jobd, process %d", pid)
		}
		return false, ""
	})
}

// gearmanPID is which process answers Gearman's text command getpid; 0: none does.
func gearmanPID(ctx context.Context, at conf.HTTP) (pid int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, at.Network, at.Address)
	if err != nil {
		return 0
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = fmt.Fprint(conn, "getpid\r\n")
	_, _ = fmt.Fscanf(conn, "OK %d\n", &pid)
	return pid
}

// found says how an address is, by the error of a try to take it. Where it is in use, holder says
// whether by the worker that leaves it to this start, or else which of jobd's daemons has it, "" for
// none.
func found(what, keys string, err error, runs func() string, holder func() (leaves bool, who string)) []Finding {
	if err == nil {
		return []Finding{{What: what, Detail: "free"}}
	}
	f := Finding{Level: Wrong, What: what, Detail: err.Error(), Remedy: "mend the " + keys, Ends: true}
	if !errors.Is(err, unix.EADDRINUSE) {
		return []Finding{f}
	}
	f.Detail, f.Remedy = "in use by another program", "give another address ("+keys+")"
	switch leaves, who := holder(); {
	case leaves:
		f = Finding{What: what, Detail: "in use by the worker that restarts"}
	case who != "" && runs() != "":
		f = Finding{What: what, Detail: "in use by " + runs()}
	case who != "":
		f = Finding{Level: Warning, What: what, Detail: "in use by " + who, Remedy: "if it is another one, " + f.Remedy}
	}
	return []Finding{f}
}

// pings is which process listens there, 0 where nobody knows; -1: it is none of jobd's daemons.
func pings(ctx context.Context, address string) int {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	link, err := jobnet.Connect(ctx, address, jobnet.LinkConfig{})
	if err != nil {
		return -1
	}
	defer link.Close()
	go func() { _ = link.Run(ctx) }()
	if err := link.Ping(ctx); err != nil && !strings.Contains(err.Error(), jobnet.PlainRefused) {
		return -1
	}
	peer, _ := link.RemoteAddr().(jobnet.PeerAddr)
	return peer.PID
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
