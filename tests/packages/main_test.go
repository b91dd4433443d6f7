package packages

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"jobd/store/storetest/must"
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
	must.Do(t, os.Mkdir(to, 0o755))
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

var programs = []string{"jobd", "jobd-master", "jobctl"}

// What an architecture is called, and how its programs are known.
var architectures = map[string]struct {
	rpm      string
	machine  elf.Machine
	emulator string // runs its programs on another machine
}{
	"amd64": {"x86_64", elf.EM_X86_64, "qemu-x86_64"},
	"arm64": {"aarch64", elf.EM_AARCH64, "qemu-aarch64"},
}

// Each package says which machine it is for, its programs are for that machine and need no library
// of it, and of all else there is the same in the packages of all machines.
func TestPackagesAreForTheirMachines(t *testing.T) {
	t.Parallel()
	var first map[string]string
	for _, arch := range strings.Split(madeArchs, ",") {
		names := architectures[arch]
		deb, rpm := the(t, made, "*_"+arch+".deb"), the(t, made, "*."+names.rpm+".rpm")
		if got := strings.TrimSpace(output(t, "dpkg-deb", "--field", deb, "Architecture")); got != arch {
			t.Errorf("%s is for %q", filepath.Base(deb), got)
		}
		if got := output(t, "rpm", "-qp", "--nosignature", "--queryformat", "%{ARCH} %{OS}", rpm); got != names.rpm+" linux" {
			t.Errorf("%s is for %q", filepath.Base(rpm), got)
		}
		inArchive := unpack(t, arch)
		all := everything(t, deb, rpm)
		unpacked := t.TempDir()
		output(t, "sh", "-c", `dpkg-deb --fsys-tarfile "$0" | tar -xC "$1" ./usr/bin`, deb, unpacked)
		for _, program := range programs {
			path := "usr/bin/" + program
			want := inArchive[path]
			isFor(t, program, want, arch, names.machine)
			if got, err := os.ReadFile(filepath.Join(unpacked, path)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of the .deb for %s is another one than that of the .tar.gz: %v", program, arch, err)
			}
			if got := all["rpm /"+path]; !strings.HasSuffix(got, fmt.Sprintf(" %x\n", sha256.Sum256(want))) {
				t.Errorf("%s of the .rpm for %s is another one than that of the .tar.gz: %s", program, arch, got)
			}
		}
		if first == nil {
			first = all
		}
		for name := range all {
			if _, ok := first[name]; !ok {
				t.Errorf("%s is in the packages for %s only", name, arch)
			}
		}
		for name, is := range first {
			if _, ok := all[name]; !ok {
				t.Errorf("%s is not in the packages for %s", name, arch)
			} else if all[name] != is && !slices.Contains(programs, filepath.Base(name)) && !strings.HasSuffix(name, "/sbom.spdx.json") {
				t.Errorf("%s is another one in the packages for %s:\n%s\n%s", name, arch, all[name], is)
			}
		}
	}
}

// isFor says whether a program is for a machine, and links with nothing when it starts.
func isFor(t *testing.T, name string, program []byte, arch string, machine elf.Machine) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Errorf("%s for %s: %v", name, arch, err)
		return
	}
	if file.Class != elf.ELFCLASS64 || file.Data != elf.ELFDATA2LSB || file.Machine != machine {
		t.Errorf("%s for %s is %v, %v, %v", name, arch, file.Class, file.Data, file.Machine)
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			t.Errorf("%s for %s needs the system's linker", name, arch)
		}
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil || !slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s == debug.BuildSetting{Key: "GOARCH", Value: arch} }) {
		t.Errorf("%s for %s: Go says %v, %v", name, arch, info, err)
	}
}

// everything is what an installer says of each file in a .deb and an .rpm: its mode, its owner, and
// of the .rpm's its sum.
func everything(t *testing.T, deb, rpm string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", deb)) {
		field := strings.Fields(line) // mode, owner, size, day, time, name
		all["deb "+field[5]] = strings.Join(field[:2], " ")
	}
	const format = `[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEDIGESTS}\n]`
	for line := range strings.Lines(output(t, "rpm", "-qp", "--nosignature", "--queryformat", format, rpm)) {
		name, rest, _ := strings.Cut(line, " ")
		all["rpm "+name] = rest
	}
	if len(all) < 100 {
		t.Fatalf("%s and %s have %d files", deb, rpm, len(all))
	}
	return all
}

// The programs start, read configurations and check the sums of a journal, those for another machine
// in an emulator, which `make test-package` installs.
func TestProgramsOfThePackagesRun(t *testing.T) {
	t.Parallel()
	journal := must.Get(filepath.Abs(filepath.Join(checkout, "testdata/journal")))(t)
	for _, arch := range strings.Split(madeArchs, ",") {
		dir := t.TempDir()
		output(t, "tar", "-xzf", the(t, made, "*-linux-"+arch+".tar.gz"), "-C", dir, "--strip-components", "1")
		output(t, "cp", "-r", journal, dir)
		run := func(program string, args ...string) string {
			t.Helper()
			words := append([]string{filepath.Join(dir, "usr/bin", program)}, args...)
			if arch != runtime.GOARCH {
				words = append([]string{architectures[arch].emulator}, words...)
				must.Get(exec.LookPath(words[0]))(t)
			}
			return output(t, words[0], words[1:]...)
		}
		for _, program := range programs {
			if said := run(program, "--version", "--verbose"); !strings.Contains(said, commit) || !strings.HasSuffix(said, " for linux/"+arch+"\n") {
				t.Errorf("%s for %s says\n%s", program, arch, said)
			}
		}
		config := filepath.Join(dir, "jobd.conf")
		settings := fmt.Sprintf("store = sqlite\nsqlite_path = %s/jobs.db\njournal_dir = %s/new\nlauncher = /bin/true {id}\nhost = 127.0.0.1\nport = 0\n[targets]\na = 1\n", dir, dir)
		must.Do(t, os.WriteFile(config, []byte(settings), 0o600))
		if said := run("jobd", "--config", config, "--check"); !strings.Contains(said, "it will be made") {
			t.Errorf("jobd --check for %s says\n%s", arch, said)
		}
		if said := run("jobctl", "journal", "verify", "--journal", filepath.Join(dir, "journal/journal")); !strings.Contains(said, "verified: ") {
			t.Errorf("jobctl journal verify for %s says\n%s", arch, said)
		}
	}
}
