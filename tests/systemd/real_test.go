package systemd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// machine is a systemd that runs beside this machine's own, on a copy of its file system.
type machine struct {
	t   *testing.T
	pid int
}

// boot starts one that ends with the test. It needs root, as whoever installs packages is.
func boot(t *testing.T) *machine {
	t.Helper()
	harness.NeedMachines(t)
	groups := "/sys/fs/cgroup/systemd"
	if _, err := os.Stat(groups); err != nil {
		groups = "/sys/fs/cgroup"
	}
	group := must.Get(os.MkdirTemp(groups, "jobd-test-"))(t)
	t.Cleanup(func() { removeGroups(t, group) })
	script := must.Get(filepath.Abs("testdata/boot.sh"))(t)
	cmd := exec.Command("sh", "-c", fmt.Sprintf(
		"echo $$ >%s/cgroup.procs && exec unshare --pid --fork --kill-child --mount --cgroup --uts --ipc sh %s %s", group, script, t.TempDir()))
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "console")))(t)
	cmd.Stdout, cmd.Stderr = log, log
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the systemd goes with it
		_ = cmd.Wait()
		log.Close()
	})
	m := &machine{t: t}
	harness.Until(t, func() string {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
		m.pid, _ = strconv.Atoi(strings.TrimSpace(string(children)))
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", m.pid))
		if strings.TrimSpace(string(name)) != "systemd" {
			said, _ := os.ReadFile(log.Name())
			return fmt.Sprintf("process %d is %s; it said %s", m.pid, name, said)
		}
		if out, err := m.try("systemctl is-system-running"); err != nil {
			return out
		}
		return ""
	})
	return m
}

// removeGroups removes control groups whose processes are gone, or go.
func removeGroups(t *testing.T, top string) {
	harness.Until(t, func() string {
		_ = exec.Command("find", top, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
		if _, err := os.Stat(top); err == nil {
			return top + " is still there"
		}
		return ""
	})
}

// try runs a shell script on the machine.
func (m *machine) try(script string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(m.pid), "-m", "-p", "-u", "-i", "-C", "-r", "-w", "sh", "-ec", script)
	said, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(said)), err
}

// run is try for what must not fail.
func (m *machine) run(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		status, _ := m.try("systemctl --no-pager --full status jobd jobd-master || cat /run/jobd.log")
		m.t.Fatalf("%s: %v: %s\n%s", script, err, out, status)
	}
	return out
}

// write writes a file on the machine.
func (m *machine) write(path, content string, mode string) {
	m.t.Helper()
	m.run(fmt.Sprintf("mkdir -p %s\ncat >%s <<'END'\n%s\nEND\nchmod %s %[2]s", filepath.Dir(path), path, content, mode))
}

// copy puts files of this machine, wherever they lie, into a folder of that one: it sees what is on the
// disk of /, and nothing of other disks, nor of /tmp.
func (m *machine) copy(folder string, files ...string) {
	m.t.Helper()
	into := fmt.Sprintf("/proc/%d/root%s/", m.pid, folder)
	if out, err := exec.Command("cp", append(files, into)...).CombinedOutput(); err != nil {
		m.t.Fatalf("copy files: %v: %s", err, out)
	}
}

// property is what systemd knows of a unit.
func (m *machine) property(unit, name string) string {
	m.t.Helper()
	return m.run("systemctl show --value -p " + name + " " + unit)
}

// await waits until systemd knows that of a unit.
func (m *machine) await(unit, name, want string) {
	m.t.Helper()
	harness.Until(m.t, func() string {
		if got := m.property(unit, name); !strings.HasPrefix(got, want) {
			return fmt.Sprintf("%s of %s is %q, not %q", name, unit, got, want)
		}
		return ""
	})
}

// install puts the programs, the units and an account on the machine.
func (m *machine) install(worker string) {
	m.t.Helper()
	units, err := filepath.Glob(filepath.Join(harness.Top(), "packaging", "systemd", "*.service"))
	if err != nil || len(units) == 0 {
		m.t.Fatalf("%v: no unit was found", err)
	}
	m.copy("/usr/bin", worker, harness.Program(m.t, "jobd-master"), harness.Program(m.t, "jobctl"))
	sockets, err := filepath.Glob(filepath.Join(harness.Top(), "packaging", "systemd", "*.socket"))
	if err != nil || len(sockets) == 0 {
		m.t.Fatalf("%v: no socket was found", err)
	}
	m.copy("/etc/systemd/system", append(units, sockets...)...)
	m.copy("/usr/lib/tmpfiles.d", filepath.Join(harness.Top(), "packaging", "tmpfiles", "jobd.conf"))
	m.run("id jobd >/dev/null 2>&1 || useradd --system --home-dir /var/lib/jobd --shell /usr/sbin/nologin jobd; systemd-tmpfiles --create jobd.conf")
}

// The shipped units under a real systemd: a start returns when the worker serves, with its password
// as a credential; a job goes on through a reload, restarts and the watchdog's abort of a worker that
// hangs, in the cage that the unit says.
func TestUnitsUnderSystemd(t *testing.T) {
	t.Parallel()
	m, db := boot(t), harness.NewDatabase(t)
	m.install(harness.Armed(t))
	master := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t), "http_listen": "/run/jobd/master.sock"}
	settings := db.Worker(t, "worker", "/usr/bin/job {id}", map[string]int{"a": 1}).Without("mysql_password", "journal_dir").
		With(harness.Settings{
			"mysql_password_file": "mysql_password", "on_stop": "handover",
			"master_host": "127.0.0.1", "master_port": master["port"], "master_reconnect_timeout": "1",
			"http_listen": "/run/jobd/http.sock",
		})
	m.write("/etc/jobd.conf", settings.String(), "644")
	m.write("/etc/jobd-master.conf", master.String(), "644")
	m.write("/etc/jobd/mysql_password", db.Account.Password, "600") // root's
	m.write("/etc/systemd/system/jobd.service.d/test.conf",
		"[Service]\nLoadCredential=mysql_password:/etc/jobd/mysql_password\nWatchdogSec=4\nStandardError=append:/run/jobd.log", "644")
	m.write("/usr/bin/job", "#!/bin/sh\ntouch /var/lib/jobd/running\nuntil test -e /var/lib/jobd/open; do sleep 0.1; done\n"+
		"grep -E 'NoNewPrivs|Seccomp:|CapBnd' /proc/self/status; touch /usr/x; touch /srv/x && echo written; env", "755")
	// On a busy host systemd may fail by itself to make a cgroup (219): that is no start of jobd.
	m.run("chmod 777 /srv; systemctl daemon-reload; systemctl start jobd jobd-master || " +
		"{ systemctl show jobd jobd-master | grep '^ExecMainStatus=219' && systemctl start jobd jobd-master; }")
	if log := m.run("cat /run/jobd.log"); strings.Contains(log, "no connection to the master") {
		t.Errorf("the worker was started before its master: %s", log)
	}

	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, settings.Addr()).Ask(t, "poll", nil) // it serves: nobody waits for that
	m.run("until test -e /var/lib/jobd/running; do sleep 0.1; done")
	m.await("jobd", "StatusText", "targets: 1, running: 1, claimed: 0")
	m.await("jobd-master", "StatusText", "workers: 1, targets: 1")

	first := m.property("jobd", "MainPID")
	m.run("systemctl reload jobd jobd-master")
	m.run("jobctl --config= --port " + settings["port"] + " restart")
	if again := m.property("jobd", "MainPID"); again != first || m.property("jobd", "SubState") != "running" {
		t.Errorf("after jobctl restart its process is %s, before %s", again, first)
	}
	m.run("systemctl restart jobd")
	if again := m.property("jobd", "MainPID"); again == first {
		t.Errorf("after systemctl restart its process is still %s", again)
	}

	m.run("echo worker-hangs:2 >/var/lib/jobd/failpoint; chown jobd /var/lib/jobd/failpoint; systemctl restart jobd")
	m.await("jobd", "StatusText", "hangs since ")
	m.run("rm /var/lib/jobd/failpoint")
	m.await("jobd", "NRestarts", "1")
	m.await("jobd", "StatusText", "targets: 1, running: 1")

	m.run("touch /var/lib/jobd/open")
	out := harness.Text(db.AwaitDone(t, 1).Stdout)
	for _, line := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapBnd:\t0000000000000000\n", "written\n"} {
		check.Contains(t, out, line, "the job does not tell … but")
	}
	check.Contains(t, harness.Text(db.Row(t, 1).Stderr), "/usr/x", "the job could write to /usr")
	if strings.Contains(out, "NOTIFY_SOCKET") || strings.Contains(out, "WATCHDOG") {
		t.Errorf("the job's environment is %q", out)
	}
	m.checkSockets()
	m.run("systemctl stop jobd-master && test -S /run/jobd/http.sock && ! test -e /run/jobd/master.sock && systemctl stop jobd")
	for _, unit := range []string{"jobd", "jobd-master"} {
		if result := m.property(unit, "Result") + " " + m.property(unit, "SubState"); result != "success dead" {
			t.Errorf("%s ended so: %s", unit, result)
		}
	}
}

// checkSockets looks at the sockets of a worker and a master that run: the group jobd reaches them, and
// nobody but root can take their places; they go with the daemons, and no client starts one of these.
func (m *machine) checkSockets() {
	m.t.Helper()
	nobody := "setpriv --reuid nobody --regid nogroup --groups "
	m.run("rm /var/lib/jobd/open")
	for _, test := range []struct{ script, want string }{ // nobody listens on the port where jobctl goes else
		{"stat -c '%U:%G %a' /run/jobd /run/jobd/jobd.sock /run/jobd/jobd-master.sock", "root:jobd 1775\nroot:jobd 660\nroot:jobd 660"},
		{"jobctl --config= status", "worker worker, version"},
		{"jobctl --config= --master list-workers", "worker"},
		{nobody + "jobd jobctl --config= list-targets", "a"},
		{nobody + "nogroup jobctl --config= list-targets 2>&1 || true", "no connection to /run/jobd/jobd.sock (permission denied), nor to 127.0.0.1:7080: "},
		{"setpriv --reuid jobd --regid jobd --clear-groups rm -f /run/jobd/jobd.sock 2>&1 || true", "Operation not permitted"},
		{"jobctl --config= restart", "at /run/jobd/jobd.sock"},
		{"systemctl restart jobd; jobctl --config= list-targets", "a"},
		{"systemctl kill --signal=KILL jobd; until jobctl --config= list-targets; do sleep 0.1; done", "a"},
	} {
		check.Contains(m.t, m.run(test.script), test.want, "%s", test.script)
	}
	m.run("systemctl stop jobd")
	out := m.run("ls /run/jobd; jobctl --config= status 2>&1 || true; systemctl show --value -p ActiveState jobd jobd.socket")
	if strings.Contains(out, "jobd.sock\n") || !strings.Contains(out, "no connection to /run/jobd/jobd.sock (no such file or directory), nor to 127.0.0.1:7080: ") || strings.Count(out, "inactive") != 2 {
		m.t.Errorf("after a stop: %q", out)
	}
	m.run("cp /etc/jobd.conf /etc/jobd.kept; echo 'b = x' >>/etc/jobd.conf; if systemctl start jobd; then exit 1; fi; cp /etc/jobd.kept /etc/jobd.conf")
	m.await("jobd.socket", "ActiveState", "inactive")
	m.run("systemctl start jobd; test -S /run/jobd/jobd.sock")
}
