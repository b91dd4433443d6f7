package host

import (
	"bytes"
	"fmt"
	"os"

	"jobd/exec/runner/wire"
)

// mostEnded is the size at which the list of ended runners is cut to the newest keptEnded. Only
// those matter that a journal names as the last ones to have been asked for a start. One that is
// missing counts as killed, which makes outcomes unknown and never starts anything again.
const (
	mostEnded = 16 << 10
	keptEnded = 500
)

// openEnded opens the list when the runner starts: at its end it only writes one line, to a folder
// that may be about to go.
func openEnded() (*os.File, error) {
	if err := trimEnded(); err != nil {
		return nil, fmt.Errorf("trim %s: %w", wire.EndedFile, err)
	}
	return os.OpenFile(wire.EndedFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

// trimEnded puts a shorter list in the place of one that has become long.
func trimEnded() error {
	info, err := os.Stat(wire.EndedFile)
	if err != nil || info.Size() <= mostEnded {
		return nil // opening it says what is wrong
	}
	listed, err := os.ReadFile(wire.EndedFile)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfter(listed, []byte("\n"))
	newest := bytes.Join(lines[max(0, len(lines)-1-keptEnded):], nil)
	if err := os.WriteFile(wire.EndedFile+".new", newest, 0o600); err != nil {
		return err
	}
	return os.Rename(wire.EndedFile+".new", wire.EndedFile)
}

// noteEnd adds a runner to the list, and closes it.
func noteEnd(list *os.File, instance string) error {
	if _, err := fmt.Fprintln(list, instance); err != nil {
		return fmt.Errorf("note the end: %w", err)
	}
	return list.Close()
}
