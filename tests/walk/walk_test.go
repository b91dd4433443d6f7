package walk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// TestWalk goes from the package to a watched service, with jobs from PHP and from Python, and tells
// how long it took to install, to start, and until the first job was done (make walk shows it).
func TestWalk(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, client := range []string{"jobd.php", "jobd.py"} {
		m.give(t, client, file(t, filepath.Join(harness.Top(), "examples", "clients", client)), 0o644)
	}
	m.give(t, "settings", "PACKAGE="+quoted(m.givePackage(t))+"\nMETRICS="+quoted(metrics(t))+"\n", 0o644)
	written := m.run(t, file(t, "testdata/walk"))
	figures := regexp.MustCompile(`(?m)^walk: .* installed in .*$`).FindString(written)
	if figures == "" {
		t.Fatalf("the walk did not come to its end:\n%s", written)
	}
	t.Log(figures)
}

// givePackage gives the machine Debian's package of this checkout for this processor, as make package
// makes it, and its name; nothing where the checkout makes none.
func (m *machine) givePackage(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(packager(), "main.go")); err != nil {
		harness.Program(t, "jobd")
		return ""
	}
	made := must.Get(packaged())(t)
	m.give(t, made.name, string(made.content), 0o644)
	return made.name
}

func packager() string { return filepath.Join(harness.Top(), "tools", "package") }

type madeFile struct {
	name    string
	content []byte
}

// packaged makes the package, once a process.
var packaged = sync.OnceValues(func() (made madeFile, err error) {
	folder, err := os.MkdirTemp("", "jobd-walk-")
	if err != nil {
		return made, err
	}
	defer os.RemoveAll(folder)
	build := exec.Command("go", "run", ".", "--root", harness.Top(), "--out", folder, "--arch", runtime.GOARCH, "--format", "deb", "--epoch", "1795183200")
	build.Dir = packager()
	if output, err := build.CombinedOutput(); err != nil {
		return made, fmt.Errorf("tools/package: %w: %s", err, output)
	}
	found, err := filepath.Glob(filepath.Join(folder, "*.deb"))
	if err != nil || len(found) != 1 {
		return made, fmt.Errorf("tools/package made %q (%v), not one package", found, err)
	}
	made.name = filepath.Base(found[0])
	made.content, err = os.ReadFile(found[0])
	return made, err
})

// metrics is "yes" where the daemons tell of themselves over HTTP.
func metrics(t *testing.T) string {
	t.Helper()
	help := exec.Command(harness.Program(t, "jobd"), "--help")
	help.Env = os.Environ()
	output := must.Get(help.Output())(t)
	if strings.Contains(string(output), "--http-listen") {
		return "yes"
	}
	return ""
}

// inside is the first process of a machine's namespaces: it mounts the Debian and becomes the script.
// All mounts, the network and the processes are gone when it has ended.
func inside(dir string) error {
	root := filepath.Join(dir, "root")
	if err := mounts(dir, root); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("debian")); err != nil {
		return fmt.Errorf("set the host's name: %w", err)
	}
	if err := loopback(); err != nil {
		return fmt.Errorf("bring up the loopback: %w", err)
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return syscall.Exec("/bin/bash", []string{"bash", "/files/prepare"}, []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
}

// mounts makes root of the Debian, of memory for what is written, and of what the test gives. Neither
// the Debian nor the checkout is changed by what is done there.
func mounts(dir, root string) error {
	lower, err := filepath.EvalSymlinks(filepath.Join(dir, "lower"))
	if err != nil {
		return err
	}
	checkout, err := filepath.EvalSymlinks(filepath.Join(dir, "checkout"))
	if err != nil {
		return err
	}
	space := filepath.Join(dir, "space")
	layers := func(lower, name string) string {
		return "lowerdir=" + lower + ",upperdir=" + space + "/" + name + ",workdir=" + space + "/" + name + "-work"
	}
	steps := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
		folders              []string // made when it is mounted
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, "", nil},
		{"tmpfs", space, "tmpfs", 0, "size=2g,mode=0755", []string{space + "/debian", space + "/debian-work", space + "/checkout", space + "/checkout-work"}},
		{"overlay", root, "overlay", 0, layers(lower, "debian"), []string{root + "/files", root + "/checkout"}},
		{"/dev", root + "/dev", "", unix.MS_BIND | unix.MS_REC, "", nil},
		{"proc", root + "/proc", "proc", 0, "", nil},
		{"tmpfs", root + "/run", "tmpfs", 0, "mode=0755", nil},
		{filepath.Join(dir, "files"), root + "/files", "", unix.MS_BIND, "", nil},
		{"overlay", root + "/checkout", "overlay", 0, layers(checkout, "checkout"), nil},
	}
	for _, s := range steps {
		if err := unix.Mount(s.source, s.target, s.kind, s.flags, s.data); err != nil {
			return fmt.Errorf("mount %s at %s: %w", s.source, s.target, err)
		}
		for _, folder := range s.folders {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// loopback makes 127.0.0.1 reachable in a network that has nothing yet.
func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// quoted is a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
