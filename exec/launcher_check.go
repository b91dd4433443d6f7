package exec

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"jobd/exec/program"
)

// Check looks whether the launcher can be executed, and says what is wrong with it. It executes
// nothing: what only that would tell passes, and the first start tells of it. A service is not looked
// at: whether it is there may change at any moment, and whoever connects to it tells.
func (l Launcher) Check() error {
	if l.Mode.Requests() {
		return nil
	}
	if l.Dir != "" {
		if err := checkFolder(l.Dir); err != nil {
			return fmt.Errorf("working folder: %w", err)
		}
	}
	for _, text := range append(l.Env, l.Words...) {
		if len(text) > longestText {
			return fmt.Errorf("%.40s… has %d bytes; the system takes %d at most", text, len(text), longestText)
		}
	}
	path, err := l.find(l.Words[0])
	if err != nil {
		return err
	}
	return program.Check(l.Dir, path)
}

// longestText is what Linux takes as a variable or as an argument: 32 pages less the byte at its
// end.
const longestText = 32*4096 - 1

func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", dir)
	case !program.Executable(dir):
		return fmt.Errorf("%s: %w", dir, unix.EACCES)
	}
	return nil
}

// at is where a path leads that the job's process executes.
func (l Launcher) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.Dir, path)
}
