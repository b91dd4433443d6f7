package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	jobnet "jobd/net"
)

// probeTimeout bounds how long the binary of a restart may take to tell its version.
const probeTimeout = 10 * time.Second

// restart handles a client's wish that the worker hand over to its next start, and be that itself:
// the same process, with the binary that is on the disk by then. What runs goes on with the runner; a binary that
// can't be run is told before anything is given up.
func (h handlers) restart(ctx context.Context, link *jobnet.Link, _ jobnet.Request) (any, error) {
	if err := probe(ctx, h.binary); err != nil {
		h.log.Error("restart refused", "error", err)
		return nil, jobnet.Refusef("not restarted: %v", err)
	}
	h.log.Info("restarting", "by", link.RemoteAddr().String(), "binary", h.binary)
	h.worker.HandOver()
	select {
	case h.restarts <- struct{}{}:
	default: // it is under way
	}
	return ok, nil
}

// probe checks that a binary can be run, by having it tell its version.
func probe(ctx context.Context, binary string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", binary, err)
	}
	if strings.Count(string(out), ".") != 2 {
		return fmt.Errorf("%s --version tells %q, which is no version", binary, out)
	}
	return nil
}

// findBinary is the path under which this process was started, as it will be
// looked for again.
func findBinary() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("own binary: %w", err)
	}
	return path, nil
}

// become replaces this process by a fresh start of the binary. It returns only if that fails.
func become(binary string, environ []string) error {
	return fmt.Errorf("restart %s: %w", binary, unix.Exec(binary, os.Args, environ))
}
