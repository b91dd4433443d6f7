package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/signals"
	jobnet "jobd/net"
)

// probeTimeout bounds how long the binary of a restart may take to say whether it would start: longer than its own limit.
const probeTimeout = 15 * time.Second

// successor is what follows this process, as far as it is known before: where it will listen.
type successor struct {
	PID     int    `json:"pid"`
	Address string `json:"address"`
}

// restart handles a client's wish that the worker hand over to its next start, and be that itself:
// the same process, with the binary that is on the disk by then. What runs goes on with the runner. The binary reads the whole
// configuration first, with the arguments and the environment that it will have, and looks whether a start would end; what it says is
// told before anything is given up. Only one restart is under way at a time, and none while the worker stops.
//
// The crash argument: until the answer nothing has changed. A worker that is killed while the binary is tried leaves that to end by
// itself; it has taken nothing. From the answer on this is a stop with handover, killed or not: what runs is with the runner,
// everything else in the journal. Where the binary can't be executed after all, the process ends with exit code 1, and whoever
// watches over it starts it.
func (h handlers) restart(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	by := link.RemoteAddr().String()
	if h.stopping.Load() {
		return nil, jobnet.Refusal("not restarted: the worker is stopping")
	}
	if !h.restartBegun.CompareAndSwap(false, true) {
		return nil, jobnet.Refusal("not restarted: a restart is under way already")
	}
	next, err := h.follow(ctx)
	if err != nil {
		h.restartBegun.Store(false)
		h.log.Error("restart refused", "by", by, "error", err)
		return nil, jobnet.Refusef("not restarted: %v", err)
	}
	h.log.Info("restarting", "by", by, "binary", h.binary)
	h.worker.HandOver()
	h.restarts <- struct{}{} // has room for the one
	if !request.Fields().Has("next") {
		return ok, nil
	}
	return next, nil
}

// follow has the binary tell whether it would start, and says what it will be.
func (d *daemon) follow(ctx context.Context) (successor, error) {
	if err := d.probe(ctx); err != nil {
		return successor{}, err
	}
	config, err := parseConfig(d.args, d.environ, io.Discard)
	if err != nil { // it has changed in this moment, or the binary takes what this one does not
		return successor{}, err
	}
	return successor{PID: os.Getpid(), Address: config.listen.Address()}, nil
}

// probe runs the binary with --check.
func (d *daemon) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.binary, append(slices.Clone(d.args), check.ForStart(d.listener.Addr().String()))...)
	cmd.Env, cmd.WaitDelay = d.environ, time.Second
	out, err := cmd.CombinedOutput()
	named := strings.HasPrefix(string(out), reportHead)
	var lines []string
	for line := range strings.Lines(string(out[:min(len(out), mostWords)])) {
		if wrong, found := strings.CutPrefix(line, "wrong "); found {
			lines = append(lines, strings.TrimSpace(wrong))
		}
	}
	switch {
	case len(lines) > 0 && named:
		return errors.New(strings.Join(lines, "\n"))
	case ctx.Err() != nil:
		return fmt.Errorf("%s --check: no answer within %v", d.binary, probeTimeout)
	case err != nil && !named && strings.Contains(string(out), "check") && len(lines) == 0:
		return fmt.Errorf("%s does not know --check: it is an older version; to go back to it, stop the worker and start it", d.binary)
	case errors.Is(err, fs.ErrNotExist) && isThere(d.binary):
		return fmt.Errorf("%s is there, but its interpreter, the program that runs it, is missing%s", d.binary, interpreter(d.binary))
	case err != nil && (named || len(lines) == 0):
		return fmt.Errorf("%s --check: %w", d.binary, err)
	case !named:
		return fmt.Errorf("%s --check tells %q, which is no report of jobd: it is no jobd, or an older version", d.binary, out[:min(len(out), 100)])
	}
	return nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// interpreter names what a script's first line says, for an error; "" where the file is no script.
func interpreter(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(file, head) // a short script is one, too
	line, isScript := strings.CutPrefix(string(head[:n]), "#!")
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if !isScript || len(words) == 0 {
		return ""
	}
	return fmt.Sprintf(": its first line names %q", words[0])
}

// mostWords is how much of the report is told on.
const mostWords = 8 << 10

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
	return fmt.Errorf("restart %s: %w", binary, signals.Become(binary, os.Args, environ))
}
