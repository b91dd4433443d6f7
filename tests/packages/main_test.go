package packages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	checkout = "../.."
	commit   = "0123456789abcdef0123456789abcdef01234567"
	date     = "2026-11-20T14:00:00Z"
	epoch    = "1795183200" // the same
)

// made is where the packages of this checkout are, for amd64: what is built elsewhere in the tests.
var made, madeArchs string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "jobd-packages-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	made, madeArchs = filepath.Join(folder, "dist"), "amd64"
	if archs := os.Getenv("JOBD_TEST_ARCHS"); archs != "" {
		madeArchs = archs
	}
	if err := makePackages(checkout, made, "--arch", madeArchs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// tool is the program that make package runs, built once.
var tool = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(made), "package")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".")
	build.Dir = filepath.Join(checkout, "tools/package")
	out, err := build.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build tools/package: %w\n%s", err, out)
	}
	return path, err
})

// makePackages makes packages of a checkout into a folder. What args say counts last.
func makePackages(root, out string, args ...string) error {
	return makePackagesUnder(nil, root, out, args...)
}

// makePackagesUnder does so with variables of the environment.
func makePackagesUnder(environ []string, root, out string, args ...string) error {
	path, err := tool()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, append([]string{"--root", root, "--out", out, "--commit", commit, "--date", date, "--epoch", epoch}, args...)...)
	cmd.Env = append(os.Environ(), environ...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, output)
	}
	return nil
}

// copyCheckout copies what packages are made of into a folder, and no more.
func copyCheckout(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.Mkdir(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cmd", "docs", "examples", "exec", "journal", "master", "net", "packaging", "store", "go.mod", "go.sum", "LICENSE", "CHANGELOG.md", "README.md", "tools/verify.py"} {
		copying := exec.Command("cp", "-R", "--parents", name, to)
		copying.Dir = checkout
		if out, err := copying.CombinedOutput(); err != nil {
			t.Fatalf("copy %s: %v\n%s", name, err, out)
		}
	}
	return to
}

// the tells the one file of the packages that matches a pattern.
func the(t *testing.T, folder, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %s: %q, %v; want one", pattern, folder, found, err)
	}
	return found[0]
}

// output runs a program and tells what it printed; where it fails, the test does.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		t.Fatalf("%v; make deps installs it", err)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, strings.TrimSpace(string(out)))
	}
	return string(out)
}
