package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Top is the repository's folder, above the one in which a test or a benchmark runs. The compiler
// can't tell where that is: with -trimpath it keeps no paths of the machine.
func Top() string { return top() }

var top = sync.OnceValue(func() string {
	started, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for folder := started; ; folder = filepath.Dir(folder) {
		content, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && slices.Contains(strings.Split(string(content), "\n"), "module jobd") {
			return folder
		}
		if folder == filepath.Dir(folder) {
			panic(started + " is in no checkout of jobd")
		}
	}
})

// Program builds the programs, once a process and one process at a time, and gives the path of one.
func Program(t testing.TB, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatalf("make build: %v", err)
	}
	return filepath.Join(Top(), "bin", name)
}

// built is a variable by which make says that it has built all programs.
const built = "JOBD_TEST_BUILT"

var build = sync.OnceValue(func() error {
	if os.Getenv(built) != "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(Top(), "bin"), 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(Top(), "bin", ".lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	makeBuild := exec.Command("make", "-s", "build")
	makeBuild.Dir = Top()
	makeBuild.Stderr = os.Stderr
	return makeBuild.Run()
})
