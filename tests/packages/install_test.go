package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/check"
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

// The pages are installed into one folder: what their links name is where they lead, in the package.
func TestLinksOfInstalledPages(t *testing.T) {
	t.Parallel()
	const doc = "usr/share/doc/jobd/"
	bodies := unpack(t, "amd64")
	folders := map[string]bool{}
	for name := range bodies {
		for at := path.Dir(name); at != "."; at = path.Dir(at) {
			folders[at] = true
		}
	}
	left := map[string]bool{"../packaging/man": true, "../testdata/journal/README.md": true, "LICENSE": true, "CHANGELOG.md": true} // of the checkout
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	pages, links := 0, 0
	for name, body := range bodies {
		if !strings.HasPrefix(name, doc) || path.Ext(name) != ".md" {
			continue
		}
		pages++
		for _, found := range link.FindAllStringSubmatch(string(body), -1) {
			links++
			if to := path.Join(path.Dir(name), found[1]); bodies[to] == nil && !folders[to] && !left[found[1]] {
				t.Errorf("/%s: %s is not in the package", name, found[1])
			}
		}
	}
	if pages < 40 || links < 200 {
		t.Errorf("%d pages with %d links were looked at", pages, links)
	}
}

// The drop-in that the unit speaks of is installed, where it says.
func TestDropInOfTheUnitIsInstalled(t *testing.T) {
	t.Parallel()
	bodies := unpack(t, "amd64")
	unit := string(bodies["usr/lib/systemd/system/jobd.service"])
	named := regexp.MustCompile(`(\S+\.conf) in (/\S+) opens`).FindStringSubmatch(unit)
	if named == nil {
		t.Fatalf("the unit names no drop-in:\n%s", unit)
	}
	if at := strings.TrimPrefix(path.Join(named[2], named[1]), "/"); len(bodies[at]) == 0 {
		t.Errorf("%s, which the unit names, is not in the package", at)
	}
}

// Built in another folder, of files with other times and modes, by somebody with another mask, time
// zone and settings of Go, and at another time.
func TestPackagesAreReproducible(t *testing.T) {
	t.Parallel()
	elsewhere := copyCheckout(t)
	output(t, "find", elsewhere, "-type", "f", "-exec", "chmod", "0600", "{}", "+")
	output(t, "find", elsewhere, "-exec", "touch", "-d", "2001-02-03 04:05:06", "{}", "+")
	again := filepath.Join(t.TempDir(), "again")
	environ := []string{"TZ=Asia/Tokyo", "GOAMD64=v3", "GOFLAGS=-mod=mod", "SOURCE_DATE_EPOCH=1", "LC_ALL=C", "HOSTNAME=other"}
	must.Do(t, makePackagesUnder(environ, elsewhere, again, "--arch", madeArchs))
	first, second := contents(t, made), contents(t, again)
	must.Elements(t, slices.Sorted(maps.Keys(second)), slices.Sorted(maps.Keys(first)), "made …, before")
	if want := 4*len(strings.Split(madeArchs, ",")) + 1; len(first) != want {
		t.Errorf("made %q, want %d files", slices.Sorted(maps.Keys(first)), want)
	}
	for name := range first {
		if !bytes.Equal(first[name], second[name]) {
			t.Errorf("%s is another one: %d and %d bytes", name, len(first[name]), len(second[name]))
		}
	}
	sums := output(t, "sh", "-c", "cd "+made+" && sha256sum --check SHA256SUMS")
	check.Equal(t, strings.Count(sums, ": OK\n"), len(first)-1, "sha256sum --check SHA256SUMS says %s", sums)
}

// Names, versions and times are those that were asked for, as the systems' own tools read them.
func TestPackagesTellWhatTheyAreOf(t *testing.T) {
	t.Parallel()
	control := output(t, "dpkg-deb", "--field", the(t, made, "*_amd64.deb"))
	for _, want := range []string{"Package: jobd\n", "Version: 1.0.0-1\n", "Architecture: amd64\n", "Section: admin\n", "Depends: passwd\n"} {
		check.Contains(t, control, want, "the .deb has no")
	}
	if got := output(t, "rpm", "-qp", "--nosignature", "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE} %{BUILDHOST} %{BUILDTIME}", the(t, made, "*.x86_64.rpm")); got != "jobd 1.0.0 1 x86_64 MIT localhost "+epoch {
		t.Errorf("the .rpm is %q", got)
	}
	for name, header := range archive(t, "amd64") {
		if !header.ModTime.Equal(time.Unix(1795183200, 0)) || header.Uid != 0 || header.Uname != "root" {
			t.Errorf("%s: of %v, by %d %s", name, header.ModTime, header.Uid, header.Uname)
		}
	}
}

func TestLintianIsContent(t *testing.T) {
	t.Parallel()
	for _, arch := range strings.Split(madeArchs, ",") {
		if out := output(t, "lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", the(t, made, "*_"+arch+".deb")); out != "" {
			t.Logf("lintian on %s:\n%s", arch, out)
		}
	}
}

// What is linked into the programs is in the list, with its licence, and nothing else.
func TestListOfWhatIsLinked(t *testing.T) {
	t.Parallel()
	var list struct {
		SpdxVersion, DocumentNamespace string
		Packages                       []struct {
			Name, VersionInfo, LicenseDeclared string
			ExternalRefs                       []struct{ ReferenceLocator string }
		}
		Files []struct {
			FileName  string
			Checksums []struct{ Algorithm, ChecksumValue string }
		}
	}
	content := must.Get(os.ReadFile(the(t, made, "*-linux-amd64.spdx.json")))(t)
	must.Do(t, json.Unmarshal(content, &list))
	want := map[string]bool{}
	bodies := unpack(t, "amd64")
	for _, program := range programs {
		info := must.Get(buildinfo.Read(bytes.NewReader(bodies["usr/bin/"+program])))(t)
		want["pkg:golang/stdlib@"+strings.TrimPrefix(info.GoVersion, "go")] = true
		for _, dep := range info.Deps {
			want["pkg:golang/"+dep.Path+"@"+dep.Version] = true
		}
	}
	got := map[string]bool{}
	for _, p := range list.Packages[1:] {
		got[p.ExternalRefs[0].ReferenceLocator] = true
		if p.LicenseDeclared == "" || p.VersionInfo == "" {
			t.Errorf("%+v: no licence or no version", p)
		}
	}
	if !maps.Equal(got, want) || len(want) < 20 {
		t.Errorf("listed %q\nlinked %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if own := list.Packages[0]; own.Name != "jobd" || own.VersionInfo != "1.0.0" || list.SpdxVersion != "SPDX-2.3" || len(list.Files) != 3 {
		t.Errorf("the list is of %+v, %s, with %d files", own, list.SpdxVersion, len(list.Files))
	}
	if !bytes.Equal(bodies["usr/share/doc/jobd/sbom.spdx.json"], content) {
		t.Error("the list in the archive is another one")
	}
}

// What an archive is unpacked over stays: nothing in it is in /etc.
func TestArchive(t *testing.T) {
	t.Parallel()
	bodies := unpack(t, "amd64")
	for _, want := range []string{
		"usr/bin/jobd", "usr/lib/systemd/system/jobd.service", "usr/lib/sysusers.d/jobd.conf", "usr/share/man/man8/jobd.8.gz",
		"usr/share/doc/jobd/examples/jobd.conf", "usr/share/doc/jobd/examples/jobd-master.conf", "usr/share/doc/jobd/copyright",
		"usr/share/doc/jobd/examples/clients/jobd.php", "usr/share/doc/jobd/examples/services/signed.php",
		"usr/share/doc/jobd/examples/launchers/fork.php", "usr/share/jobd/systemd/privileged-jobs.conf", "usr/share/jobd/systemd/job-accounts.conf",
		"usr/share/doc/jobd/configuration.md", "usr/share/doc/jobd/README.md",
		"usr/share/doc/jobd/tools/verify.py", "usr/share/bash-completion/completions/jobctl",
	} {
		if len(bodies[want]) == 0 {
			t.Errorf("%s is not in the archive", want)
		}
	}
	for name := range bodies {
		if strings.HasPrefix(name, "etc/") {
			t.Errorf("%s is in the archive", name)
		}
	}
}

// archive is the headers of the .tar.gz for a machine, by their paths below its one folder.
func archive(t *testing.T, arch string) map[string]*tar.Header {
	t.Helper()
	headers := map[string]*tar.Header{}
	eachFile(t, arch, func(name string, header *tar.Header, _ []byte) { headers[name] = header })
	return headers
}

// unpack is the same of what is in the files.
func unpack(t *testing.T, arch string) map[string][]byte {
	t.Helper()
	bodies := map[string][]byte{}
	eachFile(t, arch, func(name string, _ *tar.Header, body []byte) { bodies[name] = body })
	return bodies
}

func eachFile(t *testing.T, arch string, see func(name string, header *tar.Header, body []byte)) {
	t.Helper()
	file := must.Get(os.Open(the(t, made, "*-linux-"+arch+".tar.gz")))(t)
	defer file.Close()
	plain := must.Get(gzip.NewReader(file))(t)
	r := tar.NewReader(plain)
	for {
		header, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		body := must.Get(io.ReadAll(r))(t)
		folder, name, _ := strings.Cut(header.Name, "/")
		if folder != "jobd-1.0.0-linux-"+arch {
			t.Fatalf("%s is not in the archive's one folder", header.Name)
		}
		see(name, header, body)
	}
}

// contents is what is in the files of a folder.
func contents(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, entry := range entries {
		if found[entry.Name()], err = os.ReadFile(filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return found
}
