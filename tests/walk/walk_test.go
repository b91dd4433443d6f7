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

// givePackage gives the machine Debian's package of this checkout, and its name; nothing where the
// Makefile makes none.
func (m *machine) givePackage(t *testing.T) string {
	t.Helper()
	if !regexp.MustCompile(`(?m)^package:`).MatchString(file(t, filepath.Join(harness.Top(), "Makefile"))) {
		harness.Program(t, "jobd")
		return ""
	}
	made, err := packaged()
	if err != nil {
		t.Fatal(err)
	}
	m.give(t, filepath.Base(made), file(t, made), 0o644)
	return filepath.Base(made)
}

// packaged makes the packages, once a process, and gives the path of the one for Debian and this
// processor.
var packaged = sync.OnceValues(func() (string, error) {
	build := exec.Command("make", "-s", "package")
	build.Dir = harness.Top()
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make package: %w: %s", err, output)
	}
	pattern := filepath.Join(harness.Top(), "dist", "jobd_*_"+runtime.GOARCH+".deb")
	made, err := filepath.Glob(pattern)
	if err != nil || len(made) != 1 {
		return "", fmt.Errorf("make package left %d files %s (%v), not one", len(made), pattern, err)
	}
	return made[0], nil
})

// metrics is "yes" where the daemons tell of themselves over HTTP.
func metrics(t *testing.T) string {
	t.Helper()
	help := exec.Command(harness.Program(t, "jobd"), "--help")
	help.Env = os.Environ()
	output, err := help.Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(output), "--http-listen") {
		return "yes"
	}
	return ""
}
