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

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/web"
)

// HTTP looks whether a daemon could listen where http_listen says. start: the daemon that has
// started this process makes room for it. runs says in words which daemon runs with this
// configuration already, "" where none is known.
func HTTP(ctx context.Context, at conf.HTTP, start bool, runs func() string) []Finding {
	f := Finding{What: "http_listen " + at.Address, Detail: "free"}
	err := couldListen(at)
	switch {
	case err == nil:
	case !errors.Is(err, unix.EADDRINUSE):
		f.Level, f.Ends, f.Detail, f.Remedy = Wrong, true, err.Error(), "mend the key http_listen"
	default:
		inUse(ctx, &f, at, start, runs)
	}
	return []Finding{f}
}

// inUse tells who has the address.
func inUse(ctx context.Context, f *Finding, at conf.HTTP, start bool, runs func() string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	report, err := web.Ask(ctx, at)
	ours := err == nil && report.Program != ""
	switch {
	case ours && start && report.PID == os.Getppid():
		f.Detail = "in use by the daemon that is to start again"
	case ours && !start && runs() != "":
		f.Detail = "in use by " + runs()
	case ours && !start:
		f.Level, f.Detail = Warning, fmt.Sprintf("in use by %s, process %d", report.Program, report.PID)
		f.Remedy = "if it is another one, give another address (key http_listen)"
	default:
		f.Level, f.Ends, f.Detail, f.Remedy = Wrong, true, "in use by another program", "give another address (key http_listen)"
	}
}

// couldListen takes the address for a moment, without listening. A unix socket that is there and
// that nobody answers is no hindrance: a start replaces it.
func couldListen(at conf.HTTP) error {
	if at.Network == "tcp" {
		resolved, err := net.ResolveTCPAddr("tcp", at.Address)
		if err != nil {
			return err
		}
		return bind(resolved)
	}
	info, err := os.Lstat(at.Address)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return asPathError(filepath.Dir(at.Address), unix.Access(filepath.Dir(at.Address), unix.W_OK|unix.X_OK))
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there, and is no socket", at.Address)
	}
	conn, err := net.Dial("unix", at.Address)
	if err == nil {
		conn.Close()
		return unix.EADDRINUSE
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return err
}

func asPathError(path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: "make a socket in", Path: path, Err: err}
}
