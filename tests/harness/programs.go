package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Top is the repository's folder.
func Top() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..")
}

// Program builds the programs, once a process and one process at a time, and gives the path of one.
func Program(t testing.TB, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatalf("make build: %v", err)
	}
	return filepath.Join(Top(), "bin", name)
}

var build = sync.OnceValue(func() error {
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
