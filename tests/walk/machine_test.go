package walk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(machineFolder); dir != "" {
		if err := inside(dir); err != nil { // it does not come back where all is well
			os.Stderr.WriteString("machine: " + err.Error() + "\n")
			os.Exit(1)
		}
	}
	harness.Main(m)
}

// machineFolder is the variable that makes this program a machine, in the folder that it names.
const machineFolder = "JOBD_WALK_MACHINE"

// longest is how long a whole walk may take. On an idle machine it takes a tenth of that.
const longest = 4 * time.Minute

// freshRoot builds the Debian, or finds it built, once a process.
var freshRoot = sync.OnceValues(func() (string, error) {
	build := exec.Command(filepath.Join(harness.Top(), "tools", "fresh-root.sh"))
	var stderr bytes.Buffer
	build.Stderr = &stderr
	root, err := build.Output()
	if err != nil {
		return "", errors.New("tools/fresh-root.sh: " + err.Error() + ": " + stderr.String())
	}
	return strings.TrimSpace(string(root)), nil
})

// machine is a Debian of a test's own.
type machine struct {
	dir string // lower: the Debian, space: what is written, root: both; files: what it is given
}

// newMachine makes one, with the programs and files of the checkout. It needs root, to mount and to chroot.
func newMachine(t *testing.T) *machine {
	t.Helper()
	harness.NeedMachines(t)
	lower := must.Get(freshRoot())(t)
	m := &machine{t.TempDir()}
	for _, folder := range []string{"space", "root", "files"} {
		must.Do(t, os.Mkdir(filepath.Join(m.dir, folder), 0o755))
	}
	for name, target := range map[string]string{"lower": lower, "checkout": harness.Top()} {
		must.Do(t, os.Symlink(target, filepath.Join(m.dir, name)))
	}
	m.give(t, "prepare", file(t, "testdata/prepare"), 0o755)
	m.give(t, "systemctl", file(t, "testdata/systemctl"), 0o755)
	return m
}

// give puts a file into /files of the machine.
func (m *machine) give(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(m.dir, "files", name), []byte(content), mode))
}

// run runs a bash script there, by a user who may use sudo, in a home with the checkout in it, and
// gives what was written. When the script has ended, so has all else on the machine.
func (m *machine) run(t *testing.T, script string) string {
	t.Helper()
	m.give(t, "script", script, 0o644)
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	own := must.Get(os.Executable())(t)
	init := exec.CommandContext(ctx, own)
	init.Env = []string{machineFolder + "=" + m.dir}
	init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	var out bytes.Buffer
	init.Stdout, init.Stderr = &out, &out
	init.WaitDelay = 10 * time.Second
	if err := init.Run(); err != nil {
		t.Fatalf("the script on the machine: %v (%v); it wrote:\n%s", err, ctx.Err(), out.String())
	}
	return out.String()
}

func file(t *testing.T, name string) string {
	t.Helper()
	content := must.Get(os.ReadFile(name))(t)
	return string(content)
}
