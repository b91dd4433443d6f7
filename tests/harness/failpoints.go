package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
)

// Armed builds the daemons that kill themselves at failpoints, or hang, once a process and one process
// at a time, and gives the path of jobd. They are the binaries of their packages' tests.
func Armed(t testing.TB) string {
	t.Helper()
	return armed(t, "jobd")
}

// ArmedMaster gives that of jobd-master: the variable TEST_HANGS says which of its loops hangs, and
// at the how manieth piece of its work, as in "workers:2".
func ArmedMaster(t testing.TB) string {
	t.Helper()
	return armed(t, "jobd-master")
}

func armed(t testing.TB, program string) string {
	t.Helper()
	must.Do(t, buildArmed())
	return filepath.Join(armedFolder(), program)
}

func armedFolder() string { return filepath.Join(Top(), "bin", "failpoints") }

var buildArmed = sync.OnceValue(func() error {
	if os.Getenv(built) != "" {
		return nil
	}
	if err := os.MkdirAll(armedFolder(), 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(armedFolder(), ".lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	for _, program := range []string{"jobd", "jobd-master"} {
		build := exec.Command("go", "test", "-c", "-trimpath", "-buildvcs=false", "-o", filepath.Join(armedFolder(), program), "./cmd/"+program)
		build.Dir = Top()
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s with failpoints: %w: %s", program, err, output)
		}
	}
	return nil
})

// Arm makes the next armed workers with this journal kill themselves at the nth time that they reach
// a point.
func Arm(t testing.TB, journalDir, point string, nth int) {
	t.Helper()
	must.Do(t, os.MkdirAll(journalDir, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(journalDir, "failpoint"), fmt.Appendf(nil, "%s:%d", point, nth), 0o600))
}

// Disarm takes that back.
func Disarm(t testing.TB, journalDir string) {
	t.Helper()
	must.Do(t, os.Remove(filepath.Join(journalDir, "failpoint")))
}
