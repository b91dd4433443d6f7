package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/signals"
)

// Successor is what follows this process where it starts again: the program that is at the binary's
// path by then, in the same process, with the same arguments and environment.
type Successor struct {
	Program string // the name with which its report begins
	Binary  string
	Args    []string // without the program's own name
	Environ []string

	Capabilities []uintptr // that it begins with
}

// Successor is what would follow this process.
func (p Process) Successor(program string) (Successor, error) {
	binary, err := os.Executable()
	if err != nil {
		return Successor{}, fmt.Errorf("own binary: %w", err)
	}
	return Successor{Program: program, Binary: binary, Args: p.Args, Environ: p.Environ}, nil
}

const (
	tryTimeout = 15 * time.Second // for the report, whose own limit is shorter
	mostReport = 8 << 10          // bytes of the report that an error repeats
)

// Try runs the binary with --check, and tells why its start would end, if it would. held is where
// this process listens, the address for clients first: it makes room.
func (s Successor) Try(ctx context.Context, held ...string) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Binary, append(slices.Clone(s.Args), check.ForStart(held[0]))...)
	cmd.Env, cmd.WaitDelay = append(slices.Clone(s.Environ), check.HeldVariable+"="+strings.Join(held, ",")), time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: s.Capabilities}
	out, err := cmd.CombinedOutput()
	report := string(out)
	named := strings.HasPrefix(report, s.Program+" ")
	wrong := wrongLines(report[:min(len(report), mostReport)])
	switch {
	case len(wrong) > 0 && named:
		return errors.New(strings.Join(wrong, "\n"))
	case ctx.Err() != nil:
		return fmt.Errorf("%s --check: no answer within %v", s.Binary, tryTimeout)
	case err != nil && (named || report == ""):
		return fmt.Errorf("%s --check: %w", s.Binary, err)
	case !named:
		return fmt.Errorf("%s --check printed %q, not a report of %s: it is not %[3]s, or an older version", s.Binary, report[:min(len(report), 100)], s.Program)
	}
	return nil
}

// Become replaces this process by the successor. It returns only if that fails.
func (s Successor) Become() error {
	return fmt.Errorf("restart %s: %w", s.Binary, signals.Become(s.Binary, os.Args, s.Environ))
}

// wrongLines are the lines of a report that say what is wrong.
func wrongLines(report string) (lines []string) {
	for line := range strings.Lines(report) {
		if wrong, found := strings.CutPrefix(line, check.Wrong.String()+" "); found {
			lines = append(lines, strings.TrimSpace(wrong))
		}
	}
	return lines
}
