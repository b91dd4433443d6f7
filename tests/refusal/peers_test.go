package refusal

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// nobody is the account that has no rights of its own.
const nobody = 65534

// spy is a job that looks for passwords: in what it inherits, and in the runner and the worker, which are its parent and that
// one's parent. It says what it could open.
const spy = `env
for pid in $PPID $(cut -d ' ' -f 4 /proc/$PPID/stat); do
	for name in environ mem maps auxv io; do
		(exec 3< /proc/$pid/$name) 2> /dev/null && echo "opened $name of $(cat /proc/$pid/cmdline | tr '\0' ' ')"
	done
	ls /proc/$pid/fd > /dev/null 2>&1 && echo "listed the descriptors of $(cat /proc/$pid/cmdline | tr '\0' ' ')"
	cat /proc/$pid/environ 2> /dev/null | tr '\0' '\n'
	echo "looked at $(cat /proc/$pid/cmdline | tr '\0' ' ')"
done
for fd in /proc/$$/fd/*; do echo "has $(readlink $fd)"; done
`

func TestJobsDoNotReadThePasswords(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give the worker an account of its own")
	}
	db := harness.NewDatabase(t)
	home := homeOf(t, nobody)
	launcher := filepath.Join(home, "spy.sh")
	writeFor(t, nobody, launcher, "#!/bin/sh\n"+spy, 0o755)
	settings := db.Worker(t, "worker", launcher, map[string]int{"a": 1}).
		With(harness.Settings{"journal_dir": filepath.Join(home, "journal"), "password": "wire-secret"}).
		Without("mysql_password")
	config := filepath.Join(home, "jobd.conf")
	writeFor(t, nobody, config, settings.String(), 0o600)
	worker := byNobody(t, home, "--config", config)
	worker.Env = append(os.Environ(), "JOBD_MYSQL_PASSWORD="+db.Account.Password)
	var output strings.Builder
	worker.Stdout, worker.Stderr = &output, &output
	db.Insert(t, 1, "a", "waiting")
	must.Do(t, worker.Start())
	t.Cleanup(func() {
		_ = worker.Process.Signal(syscall.SIGTERM) // it may be gone
		if err := worker.Wait(); err != nil {
			t.Errorf("jobd ended with %v; it wrote:\n%s", err, output.String())
		}
	})

	found := harness.Text(db.AwaitDone(t, 1).Stdout)
	for _, secret := range []string{db.Account.Password, "wire-secret", "JOBD_", "opened ", "listed ", "/journal", "socket:", "anon_inode:"} {
		if strings.Contains(found, secret) {
			t.Errorf("a job found %q", secret)
		}
	}
	for _, word := range []string{"looked at jobd runner", "looked at " + worker.Path, "has /dev/null"} {
		if !strings.Contains(found, word) {
			t.Errorf("the job did not say %q", word)
		}
	}
	if t.Failed() {
		t.Logf("the job found:\n%s", found)
	}
}

// byNobody is a worker of the account nobody, which is not started yet.
func byNobody(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	program := must.Get(os.ReadFile(harness.Program(t, "jobd")))(t)
	binary := filepath.Join(home, "jobd")
	writeFor(t, nobody, binary, string(program), 0o755)
	worker := exec.Command(binary, args...)
	worker.Dir = home
	worker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return worker
}

// homeOf makes a folder for another account, which it can reach.
func homeOf(t *testing.T, account int) string {
	t.Helper()
	home := must.Get(os.MkdirTemp("", "jobd-home-"))(t)
	t.Cleanup(func() { os.RemoveAll(home) })
	must.Do(t, os.Chown(home, account, account))
	return home
}

// writeFor writes a file of another account. A file that is open for writing while
// somebody forks can't be executed.
func writeFor(t *testing.T, account int, path, content string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(content), mode)
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = os.Chown(path, account, account)
	}
	if err != nil {
		t.Fatal(err)
	}
}
