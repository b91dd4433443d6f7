package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// endedFile lists, in the journal's folder, the runners that ended in order: with nothing left of what
// they were asked to start. One that is not listed was killed, or the machine was.
const endedFile = "runner.ended"

// openEnded opens the list. That is done when a runner starts: at its end it only writes
// one line, to a folder that may be about to go.
func openEnded() (*os.File, error) {
	return os.OpenFile(endedFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
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
