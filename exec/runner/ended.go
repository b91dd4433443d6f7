package runner

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// endedFile lists, in the journal's folder, the runners that ended in order: with nothing left of what
// they were asked to start. One that is not listed was killed, or the machine was.
const endedFile = "runner.ended"

// mostEnded is the size at which the list is cut to the newest runners, keptEnded of them. Only those matter that
// a journal names as the last ones to have been asked for a start; one that is missing
// counts as killed, which makes the outcome unknown and never starts anything again.
const (
	mostEnded = 16 << 10
	keptEnded = 500
)

// openEnded opens the list. That is done when a runner starts: at its end it only writes
// one line, to a folder that may be about to go.
func openEnded() (*os.File, error) {
	if err := trimEnded(); err != nil {
		return nil, fmt.Errorf("trim %s: %w", endedFile, err)
	}
	return os.OpenFile(endedFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

// trimEnded puts a shorter list in the place of one that has become long.
func trimEnded() error {
	info, err := os.Stat(endedFile)
	if err != nil || info.Size() <= mostEnded {
		return nil // opening it tells what is wrong
	}
	listed, err := os.ReadFile(endedFile)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(listed, []byte("\n"))
	newest := bytes.Join(lines[max(0, len(lines)-1-keptEnded):], nil)
	if err := os.WriteFile(endedFile+".new", newest, 0o600); err != nil {
		return err
	}
	return os.Rename(endedFile+".new", endedFile)
}

// noteEnd lists the runner.
func (s *Server) noteEnd() error {
	if _, err := fmt.Fprintln(s.ended, s.instance); err != nil {
		return fmt.Errorf("note the end: %w", err)
	}
	return s.ended.Close()
}

// Ended implements jobexec.Keeper.
func (r *Remote) Ended(instance string) bool {
	listed, err := os.ReadFile(filepath.Join(r.config.Dir, endedFile))
	return err == nil && slices.Contains(strings.Fields(string(listed)), instance)
}
