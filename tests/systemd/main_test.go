package systemd

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// These tests wait more than they work: many do so at once.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	harness.Main(m)
}

// manager is what a daemon's NOTIFY_SOCKET leads to.
type manager struct {
	t        *testing.T
	path     string
	watchdog time.Duration // 0: it wants no signs of life

	mu   sync.Mutex
	said []string // each message, its lines in one
}

// newManager listens until the test ends.
func newManager(t *testing.T, watchdog time.Duration) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{t: t, path: filepath.Join(dir, "s"), watchdog: watchdog}
	socket := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}))(t)
	over := make(chan struct{})
	go func() {
		defer close(over)
		message := make([]byte, 64<<10)
		for {
			n, err := socket.Read(message)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, string(message[:n]))
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() { socket.Close(); <-over; os.RemoveAll(dir) })
	return m
}

// launch starts a program's file as systemd does.
func (m *manager) launch(binary string, s harness.Settings) *harness.Daemon {
	m.t.Helper()
	variables := "NOTIFY_SOCKET=" + m.path
	if m.watchdog > 0 {
		variables += fmt.Sprintf(" WATCHDOG_PID=$$ WATCHDOG_USEC=%d", m.watchdog.Microseconds())
	}
	return harness.LaunchBinary(m.t, harness.Script(m.t, variables+" exec "+binary+` "$@"`), s.Write(m.t), s.Addr())
}

// messages are those that came, from one on.
func (m *manager) messages(from int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.said[from:]...)
}

// await waits for a message with a line that begins so, from one on, and gives it and where the next
// one is.
func (m *manager) await(from int, line string) (message string, next int) {
	m.t.Helper()
	harness.Until(m.t, func() string {
		for i, said := range m.messages(from) {
			if strings.HasPrefix(said, line) || strings.Contains(said, "\n"+line) {
				message, next = said, from+i+1
				return ""
			}
		}
		return fmt.Sprintf("no %q among what was said: %q", line, m.messages(from))
	})
	return message, next
}

// alive waits for signs of life, so many from now on.
func (m *manager) alive(signs int) {
	m.t.Helper()
	from := len(m.messages(0))
	for range signs {
		_, from = m.await(from, "WATCHDOG=1")
	}
}

// hung are the messages that tell of a loop that stands still.
func (m *manager) hung() (told []string) {
	for _, said := range m.messages(0) {
		if strings.Contains(said, "STATUS=hangs") {
			told = append(told, said)
		}
	}
	return told
}

// gated is a launcher whose jobs run until it is opened.
func gated(t *testing.T) (command, running string, open func()) {
	t.Helper()
	dir := t.TempDir()
	script := harness.Script(t, fmt.Sprintf(`touch %[1]s/running; until test -e %[1]s/open; do sleep 0.2; done; env`, dir))
	return script + " {id}", filepath.Join(dir, "running"), func() { harness.Touch(t, filepath.Join(dir, "open")) }
}

// With job-accounts.conf, and all else closed as the unit has it, jobs have the account of launcher.user, can
// be ended, and have no capability; without it the worker does not start, and says why.
func TestJobAccountsUnderSystemd(t *testing.T) {
	t.Parallel()
	m, db := boot(t), harness.NewDatabase(t)
	m.install(harness.Program(t, "jobd"))
	settings := db.Worker(t, "worker", "/usr/bin/job {id}", map[string]int{"own": 1, "other": 1, "held": 1}).Without("journal_dir").With(
		harness.Settings{"launcher.cwd": "/"}, harness.Terms("other", harness.Settings{"launcher.user": "daemon"}),
		harness.Terms("held", harness.Settings{"launcher.user": "daemon", "launcher": "/usr/bin/sleep 300{id}"}))
	m.write("/etc/jobd.conf", settings.String(), "644")
	m.write("/usr/bin/job", "#!/bin/sh\nid -un; grep -E 'Cap(Inh|Prm|Eff|Amb)|NoNew|Seccomp:' /proc/self/status", "755")
	m.write("/etc/systemd/system/jobd.service.d/test.conf", "[Service]\nRestart=no\nStandardError=append:/run/jobd.log", "644")
	m.run("systemctl daemon-reload")
	if out, err := m.try("systemctl start jobd"); err == nil {
		t.Errorf("it starts without the drop-in: %s", out)
	}
	if said := m.run("cat /run/jobd.log"); !strings.Contains(said, "launcher of [target other]: its jobs should run as user daemon, and this process lacks CAP_SETUID, CAP_SETGID, CAP_KILL; start jobd as root, or under systemd with job-accounts.conf") {
		t.Errorf("without the drop-in it says %s", said)
	}
	m.copy("/etc/systemd/system/jobd.service.d", harness.Top()+"/packaging/systemd/job-accounts.conf")
	m.run("systemctl daemon-reload; systemctl start jobd")
	for id, target := range []string{"held", "other", "own"} {
		db.Insert(t, int64(id+1), target, "waiting")
	}
	harness.Dial(t, settings.Addr()).Ask(t, "poll", nil)
	const none = "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
	for id, account := range map[int64]string{2: "daemon", 3: "jobd"} {
		check.Equal(t, harness.Text(db.AwaitDone(t, id).Stdout), account+"\n"+none, "the job of %s says", account)
	}
	m.run("jobctl --config= --port " + settings["port"] + " restart")
	m.run("jobctl --config= --port " + settings["port"] + " cancel 1")
	row := db.AwaitDone(t, 1)
	check.Equal(t, harness.Text(row.Sig), "SIGTERM", "the job that was cancelled: %v", row)
	m.run("systemctl stop jobd")
}

// A worker, its master and jobctl take their passwords from credentials, as units have them. A
// password that has changed is told at a SIGHUP, as one in the configuration is.
func TestCredentials(t *testing.T) {
	t.Parallel()
	db, dir := harness.NewDatabase(t), t.TempDir()
	keep := func(name, password string) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(password+"\n"), 0o600))
	}
	keep("net", "s3cret")
	keep("db", db.Account.Password)
	launch := func(program string, s harness.Settings) *harness.Daemon {
		binary := harness.Script(t, "CREDENTIALS_DIRECTORY="+dir+" exec "+harness.Program(t, program)+` "$@"`)
		return harness.LaunchBinary(t, binary, s.Write(t), s.Addr()).Ready(t)
	}
	net := harness.Settings{"host": "127.0.0.1", "password_file": "net", "log_level_console": "info"}
	master := launch("jobd-master", net.With(harness.Settings{"port": harness.FreePort(t)}))
	worker := launch("jobd", db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).Without("mysql_password").
		With(net, harness.MasterOf(master), harness.Settings{"mysql_password_file": "db"}))
	harness.AwaitWorkers(t, master, "s3cret", 1)
	db.Insert(t, 1, "a", "waiting")
	client := harness.Dial(t, worker.Addr)
	client.Authorise(t, "s3cret")
	client.Ask(t, "poll", nil)
	db.AwaitDone(t, 1)

	keep("net", "another")
	worker.Signal(t, syscall.SIGHUP)
	worker.AwaitSaid(t, "keys=password")
	must.Do(t, os.Remove(filepath.Join(dir, "db")))
	worker.Signal(t, syscall.SIGHUP)
	worker.AwaitSaid(t, "mysql_password_file: "+dir+"/db: no such file; the unit's LoadCredential puts it there, under this name")
	if strings.Contains(worker.Output(), "another") {
		t.Error("the log has the password")
	}
}

// Whoever has a daemon read a configuration with a mistake is answered by nobody. The daemons' words
// for systemctl status, jobctl status and jobctl health say so until it is mended, and quote nothing.
func TestConfigurationThatIsNotTakenOver(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "worker", "/bin/echo {id}", map[string]int{"a": 1})
	for program, settings := range map[string]harness.Settings{
		"jobd": worker, "jobd-master": {"host": "127.0.0.1", "port": harness.FreePort(t)},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			m, file := newManager(t, 0), settings.Write(t)
			script := harness.Script(t, "NOTIFY_SOCKET="+m.path+" exec "+harness.Program(t, program)+` "$@"`)
			d := harness.LaunchBinary(t, script, file, settings.Addr()).Ready(t)
			reload := func(s harness.Settings) {
				must.Do(t, os.WriteFile(file, []byte(s.String()), 0o600))
				d.Signal(t, syscall.SIGHUP)
			}
			words := "; the configuration was refused at "

			reload(settings.With(harness.Settings{"port": "hunter2"}))
			m.awaitWords(words, true)
			if program == "jobd" {
				for command, want := range map[string]string{"status": "its configuration has had a mistake since ", "health": "JOBD WARNING - worker worker: its configuration has had a mistake"} {
					if out := ask(t, settings, command); !strings.Contains(out, want) || strings.Contains(out, "hunter2") {
						t.Errorf("jobctl %s says %s", command, out)
					}
				}
			}
			if said := strings.Join(m.messages(0), "\n"); strings.Contains(said, "hunter2") {
				t.Errorf("the words quote the file: %s", said)
			}

			reload(settings)
			m.awaitWords(words, false)
			if program == "jobd" {
				if out := ask(t, settings, "health"); !strings.HasPrefix(out, "JOBD OK") {
					t.Errorf("when it is mended jobctl health says %s", out)
				}
			}
		})
	}
}

// awaitWords waits until what was said last of how the daemon stands has some words in it, or has not.
func (m *manager) awaitWords(words string, has bool) {
	m.t.Helper()
	harness.Until(m.t, func() string {
		last := ""
		for _, said := range m.messages(0) {
			if strings.Contains(said, "STATUS=") {
				last = said
			}
		}
		if strings.Contains(last, words) != has {
			return "it said last " + last
		}
		return ""
	})
}

// ask is what jobctl prints.
func ask(t *testing.T, settings harness.Settings, command string) string {
	t.Helper()
	out, _ := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), "--config=", "--port", settings["port"], command).CombinedOutput()
	return string(out)
}
