package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// root is a Debian that has never seen jobd. Nobody may change it.
var root = sync.OnceValues(func() (string, error) {
	cmd := exec.Command(filepath.Join(checkout, "tools/fresh-root.sh"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// inRoot runs a script of testdata. In its environment are ROOT, a copy of root that is gone
// afterwards, and PACKAGES, the folder of the packages, both as paths of this machine; the script has
// mounts, processes and a network of its own, which end with it.
func inRoot(t *testing.T, script, packages string) {
	t.Helper()
	harness.NeedMachines(t)
	base, err := root()
	if err != nil {
		t.Fatalf("tools/fresh-root.sh: %v", err)
	}
	script = must.Get(filepath.Abs(filepath.Join("testdata", script)))(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--", "sh", "-eu", "-c", `
mount -t tmpfs -o mode=0755 above "$ABOVE"
mkdir -m 0755 "$ABOVE/changed" "$ABOVE/work" "$ABOVE/root"
mount -t overlay -o "lowerdir=$BASE,upperdir=$ABOVE/changed,workdir=$ABOVE/work" overlay "$ABOVE/root"
mount -t proc proc "$ABOVE/root/proc"
mkdir "$ABOVE/root/packages"
mount --bind "$PACKAGES" "$ABOVE/root/packages"
ROOT=$ABOVE/root sh -eux "$SCRIPT"`)
	cmd.Env = append(os.Environ(), "BASE="+base, "ABOVE="+t.TempDir(), "PACKAGES="+packages, "SCRIPT="+script, "COMMIT="+commit, "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(script), err, out)
	}
	if !strings.Contains(string(out), "\nthe script has come to its end\n") {
		t.Fatalf("%s did not come to its end:\n%s", filepath.Base(script), out)
	}
}

// The next version has another commit in its programs and another example of the configuration.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	next := copyCheckout(t)
	example := filepath.Join(next, "packaging/jobd.conf")
	text := must.Get(os.ReadFile(example))(t)
	must.Do(t, os.WriteFile(example, append(text, "\n; said by the next version\n"...), 0o644))
	packages := t.TempDir()
	must.Do(t, makePackages(next, packages, "--arch", "amd64", "--format", "deb", "--release", "2", "--commit", strings.Repeat("fedcba98", 5)))
	output(t, "cp", the(t, made, "*_amd64.deb"), packages)
	inRoot(t, "deb.sh", packages)
}

func TestRPMPackage(t *testing.T) {
	t.Parallel()
	inRoot(t, "rpm.sh", made)
}

// The archive is installed by the commands of the page.
func TestArchiveByThePage(t *testing.T) {
	page := must.Get(os.ReadFile(filepath.Join(checkout, "docs/install.md")))(t)
	_, section, _ := strings.Cut(string(page), "\n## Elsewhere\n")
	_, block, _ := strings.Cut(section, "\n```sh\n")
	block, _, found := strings.Cut(block, "\n```\n")
	if !found || !strings.Contains(block, "tar -xzf jobd-") {
		t.Fatalf("docs/install.md: no commands under Elsewhere: %q", block)
	}
	t.Setenv("PAGE", block)
	inRoot(t, "tar.sh", made)
}
