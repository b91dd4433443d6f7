package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// shipped is a folder with the units as they are shipped, but that the programs are those that were
// built; a template has an instance.
func shipped(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, as := range map[string]string{
		"jobd.service": "jobd.service", "jobd-master.service": "jobd-master.service", "jobd@.service": "jobd@one.service",
		"jobd.socket": "jobd.socket", "jobd-master.socket": "jobd-master.socket", "jobd@.socket": "jobd@one.socket",
	} {
		text := strings.NewReplacer(
			"ExecStart=/usr/bin/jobd ", "ExecStart="+harness.Program(t, "jobd")+" ",
			"ExecStart=/usr/bin/jobd-master ", "ExecStart="+harness.Program(t, "jobd-master")+" ",
		).Replace(unit(t, name))
		must.Do(t, os.WriteFile(filepath.Join(dir, as), []byte(text), 0o644))
	}
	return dir
}

func unit(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(harness.Top(), "packaging", "systemd", name)))(t)
	return string(text)
}

// analyze runs systemd-analyze on a unit of a folder.
func analyze(t *testing.T, dir, name string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command("systemd-analyze", append(args, filepath.Join(dir, name))...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// The units say nothing that systemd does not understand, and are as closed as they claim to be.
func TestUnits(t *testing.T) {
	t.Parallel()
	dir := shipped(t)
	for name, most := range map[string]string{"jobd.service": "39", "jobd@one.service": "39", "jobd-master.service": "19"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := analyze(t, dir, name, "verify", "--man=no", "--recursive-errors=no"); err != nil || strings.Contains(out, name) {
				t.Errorf("systemd-analyze verify: %v: %s", err, out)
			}
			out, err := analyze(t, dir, name, "security", "--offline=true", "--no-pager", "--threshold="+most)
			if err != nil || !strings.Contains(out, "Overall exposure level") {
				t.Errorf("systemd-analyze security: %v: %s", err, out)
			}
		})
	}
}

// A worker whose jobs may do more is one whose unit has the drop-in; nothing that the unit closes is
// left closed then, which would imply NoNewPrivileges.
func TestPrivilegedJobs(t *testing.T) {
	t.Parallel()
	dir := shipped(t)
	open := unit(t, "privileged-jobs.conf")
	must.Do(t, os.WriteFile(filepath.Join(dir, "jobd.service"), []byte(unit(t, "jobd.service")+open), 0o644))
	if out, err := analyze(t, dir, "jobd.service", "security", "--offline=true", "--no-pager", "--threshold=80"); err == nil {
		t.Errorf("the drop-in leaves much closed: %s", out)
	}
	key := regexp.MustCompile(`(?m)^((?:Protect|Private|Restrict|SystemCall|Lock|NoNew|Capability)\w*)=`)
	for _, set := range key.FindAllStringSubmatch(unit(t, "jobd.service"), -1) {
		kept := set[1] == "ProtectSystem" || set[1] == "SystemCallErrorNumber" // these imply nothing
		if !kept && !strings.Contains(open, "\n"+set[1]+"=") {
			t.Errorf("%s is closed with the drop-in, too", set[1])
		}
	}
}

// ownFolder is what makes a folder for the http_listen of one of several workers.
const ownFolder = "# For http_listen = /run/jobd/NAME/http.sock. Several units share /run/jobd, so none takes it away.\n" +
	"RuntimeDirectory=jobd/%i\nRuntimeDirectoryMode=0750\nRuntimeDirectoryPreserve=yes\n"

// The unit for several workers differs from the one for one in its names only.
func TestTheTemplateIsTheUnit(t *testing.T) {
	t.Parallel()
	names := strings.NewReplacer(
		" %i", "", "jobd/%i.conf", "jobd.conf", "=jobd/%i", "=jobd", "jobd/%i.", "jobd/", "jobd@\"", "jobd\"",
		"=jobd/%i\n", "=jobd\n", " jobd@%i.socket", " jobd.socket",
		"Environment=JOBD_DEFAULT_NAME=%H-%i\n", "", ownFolder, "",
	)
	_, template, _ := strings.Cut(unit(t, "jobd@.service"), "[Unit]")
	_, one, _ := strings.Cut(unit(t, "jobd.service"), "[Unit]")
	check.Equal(t, names.Replace(template), one, "the template without its names is … the unit is")
}

// The socket of docs/monitoring.md has a folder in which the daemons of each unit may make it, also a
// master, to which all else is closed; no unit that stops takes it from another one.
func TestTheSocketOfThePageHasAFolder(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile(filepath.Join(harness.Top(), "docs", "monitoring.md")))(t)
	socket := regexp.MustCompile("`http_listen = /run/([^/]+)/[^/`]+`").FindSubmatch(page)
	if socket == nil {
		t.Fatal("the page names no socket below /run")
	}
	folder := "/run/" + string(socket[1])
	for name, said := range map[string]string{
		"jobd-master.service": "\nReadWritePaths=-" + folder + "\n", "jobd@.service": ownFolder, "../tmpfiles/jobd.conf": "\nd " + folder + " 1775 root jobd -\n",
		"jobd.socket": "\nListenStream=" + folder + "/jobd.sock\n", "jobd@.socket": "\nListenStream=" + folder + "/%i.sock\n",
	} {
		check.Contains(t, unit(t, name), said, "%s does not say", name)
	}
	for _, name := range []string{"jobd.service", "jobd-master.service"} { // it would be given to their account, with the sockets in it
		if strings.Contains(unit(t, name), "\nRuntimeDirectory=") {
			t.Errorf("%s has a RuntimeDirectory", name)
		}
	}
}
