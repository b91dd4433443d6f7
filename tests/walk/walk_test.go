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
	"testing"

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
