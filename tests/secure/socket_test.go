package secure

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"jobd/net/cert/certtest"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// openFolder is a folder that every account may enter.
func openFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "sockets")
	if err == nil {
		err = os.Chmod(folder, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// overSocket runs jobctl, or another file of it, over a socket.
func overSocket(t *testing.T, binary, socket string, account *syscall.Credential, args ...string) (said string, code int) {
	t.Helper()
	cmd := exec.CommandContext(harness.Bounded(t), binary, append([]string{"--config=", "--socket", socket}, args...)...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = []string{"JOBCTL_PASSWORD=the password of all of them"}, "/", &syscall.SysProcAttr{Credential: account}
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// A master and a worker that listen on sockets alone: they find each other, jobs run, the worker is
// followed by its next start, and another account is let in by its group, and else is not.
func TestAFleetOnSockets(t *testing.T) {
	t.Parallel()
	const password = "the password of all of them"
	folder := openFolder(t)
	masterSocket, workerSocket := filepath.Join(folder, "master"), filepath.Join(folder, "worker")
	told := harness.Settings{"password": password, "log_level_console": "info"}
	masters := told.With(harness.Settings{"listen_unix": masterSocket})
	master := harness.Launch(t, "jobd-master", masters.Write(t), "")
	master.AwaitSaid(t, "master serves")
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "w1", harness.Script(t, "echo job $1")+" {id}", map[string]int{"a": 2}).Without("host", "port").
		With(told, harness.Settings{"listen_unix": workerSocket, "master_unix": masterSocket}, // which needs no TLS
			harness.Settings{"master_tls": "verify", "master_tls_ca": certtest.New(t).File})
	worker := harness.Launch(t, "jobd", settings.Write(t), "")
	master.AwaitSaid(t, fmt.Sprintf("address=\"uid %d pid %d\"", os.Geteuid(), worker.Pid))
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES (1, 'a', UNIX_TIMESTAMP(), 'manual')")
	jobctl := harness.Program(t, "jobctl")
	for _, test := range []struct {
		socket string
		args   []string
		want   string
	}{
		{masterSocket, []string{"--master", "list-workers"}, fmt.Sprintf("unix:%d", worker.Pid)},
		{masterSocket, []string{"--master", "run-manual", "a:1"}, "job 1"},
		{masterSocket, []string{"--master", "pause", "a"}, ""},
		{workerSocket, []string{"journal", "log"}, fmt.Sprintf("uid %d pid ", os.Geteuid())},
		{workerSocket, []string{"restart"}, fmt.Sprintf("process %d serves again, version ", worker.Pid)},
		{workerSocket, []string{"status"}, "w1"},
	} {
		if said, code := overSocket(t, jobctl, test.socket, nil, test.args...); code != 0 || !strings.Contains(said, test.want) {
			t.Errorf("%q: exit code %d, said %q, want %q", test.args, code, said, test.want)
		}
	}
	for program, config := range map[string]string{"jobd": worker.Config, "jobd-master": master.Config} {
		out, _ := exec.CommandContext(harness.Bounded(t), harness.Program(t, program), "--config", config, "--check").CombinedOutput()
		if !regexp.MustCompile(`(ok|warning) +listen_unix ` + folder + `/\w+: in use by `).Match(out) {
			t.Errorf("%s --check:\n%s", program, out)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("another account needs root")
	}
	theirs := filepath.Join(folder, "jobctl")
	copyProgram(t, jobctl, theirs)
	const foreign = 54321
	for want, groups := range map[string][]uint32{"w1": {uint32(os.Getegid())}, "permission denied": {}} {
		account := &syscall.Credential{Uid: foreign, Gid: foreign, Groups: groups}
		if said, _ := overSocket(t, theirs, workerSocket, account, "status"); !strings.Contains(said, want) {
			t.Errorf("groups %d: said %q, want %q", groups, said, want)
		}
	}
	// Who takes the place of a socket gets no password.
	impostor := filepath.Join(folder, "their", "s")
	must.Do(t, os.Mkdir(filepath.Dir(impostor), 0o777))
	must.Do(t, os.Chown(filepath.Dir(impostor), foreign, foreign))
	listens := exec.CommandContext(t.Context(), "socat", "-u", "UNIX-LISTEN:"+impostor+",fork", "STDOUT")
	heard := &bytes.Buffer{}
	listens.Dir, listens.Stdout = "/", heard
	listens.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: foreign, Gid: foreign}}
	must.Do(t, listens.Start())
	harness.AwaitFile(t, impostor)
	harness.Until(t, func() string {
		said, code := overSocket(t, jobctl, impostor, nil, "status")
		if code == 3 && strings.Contains(said, "uid 54321 listens there; it is not root, jobd or this process's account") {
			return ""
		}
		return said
	})
	_ = listens.Process.Kill()
	_ = listens.Wait()
	if heard.Len() > 0 {
		t.Errorf("the impostor heard %q", heard)
	}
}

// copyProgram makes a program available to all accounts.
// The account of who calls over a socket is a credential: the application's may submit, and that is all.
func TestAnAccountIsAPrincipal(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("another account needs root")
	}
	const shop = 54322
	folder := openFolder(t)
	socket, theirs := filepath.Join(folder, "master"), filepath.Join(folder, "jobctl")
	copyProgram(t, harness.Program(t, "jobctl"), theirs)
	p := newPeople(t, fmt.Sprintf("shop submit mail uid:%d", shop))
	settings := p.settings().With(harness.Settings{"listen_unix": socket, "log_level_console": "info"})
	master := harness.Launch(t, "jobd-master", settings.Write(t), "")
	master.AwaitSaid(t, "master serves")
	account := &syscall.Credential{Uid: shop, Gid: shop, Groups: []uint32{uint32(os.Getegid())}}
	for _, test := range []struct {
		account *syscall.Credential
		args    []string
		want    string
		code    int
	}{
		{account, []string{"poke", "mail"}, "", 0},
		{account, []string{"poke", "reports"}, "shop may run jobs of mail, not reports", 1},
		{account, []string{"pause", "mail"}, "shop may not ask for pause: that needs the scope admin, and it has submit", 1},
		{nil, []string{"poke", "mail"}, "password", 1}, // root has no line
	} {
		cmd := exec.CommandContext(harness.Bounded(t), theirs, append([]string{"--config=", "--socket", socket, "--master"}, test.args...)...)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: test.account}
		said, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(said), test.want) {
			t.Errorf("%q: exit code %d, said %q, want %d, %q", test.args, code, said, test.code, test.want)
		}
	}
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	syscall.ForkLock.RLock() // a process that another test starts just then would keep the file open
	defer syscall.ForkLock.RUnlock()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A socket that whoever started the worker has made, as systemd does: it is listened on without being
// configured, no job has it, and through restarts everybody who connects gets in, and is answered.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	var files []*os.File
	var path, inode string // of the last one: a runner has a socket of its own at descriptor 3
	for range 2 {
		path = filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		listener.(*net.UnixListener).SetUnlinkOnClose(false)
		file := must.Get(listener.(*net.UnixListener).File())(t)
		files = append(files, file)
		if inode, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd())); err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
	}
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "w1", harness.Script(t, "ls -l /proc/self/fd/ /proc/$$/fd/ /proc/$PPID/fd/; env")+" {id}", map[string]int{"a": 2})
	const start = `export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=jobd.socket; exec "$0" "$@"`
	cmd := exec.Command("sh", "-c", start, harness.Program(t, "jobd"), "--config", settings.Write(t))
	said := must.Get(os.Create(filepath.Join(t.TempDir(), "said")))(t)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = t.TempDir(), said, said, files
	must.Do(t, cmd.Start())
	for _, file := range files {
		_ = file.Close() // they are the worker's alone
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			content, _ := os.ReadFile(said.Name())
			t.Errorf("the worker ended: %v, and had said:\n%s", err, content)
		}
	})

	jobctl := harness.Program(t, "jobctl")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := echoed(path); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		if said, code := overSocket(t, jobctl, path, nil, "restart"); code != 0 {
			t.Errorf("restart: exit code %d, said %q", code, said)
		}
	}
	close(stop)
	clients.Wait()
	db.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES (1, 'a', UNIX_TIMESTAMP(), 'manual')")
	out, code := overSocket(t, jobctl, path, nil, "run-manual", "a:1")
	if code != 0 || !strings.Contains(out, "/fd/") {
		t.Fatalf("the job: exit code %d, said %q", code, out)
	}
	if strings.Contains(out, inode) || strings.Contains(out, "LISTEN_") {
		t.Errorf("a job, or its runner, has the socket %s, or its variables:\n%s", inode, out)
	}
	if fds, err := exec.CommandContext(t.Context(), "ls", "-l", fmt.Sprintf("/proc/%d/fd/", cmd.Process.Pid)).Output(); err == nil && !strings.Contains(string(fds), inode) {
		t.Errorf("the worker does not have %s:\n%s", inode, fds)
	}
}

// echoed sends a request again and again, over a link of its own each, until it is answered. Each link
// can be made at once; one that a worker had which then started again may end without an answer.
func echoed(path string) error {
	for {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		if _, err = conn.Write([]byte("[0,{\"no\":1,\"type\":\"list-targets\"}]\x04")); err == nil {
			if answer, _ := io.ReadAll(io.LimitReader(conn, 10)); bytes.HasPrefix(answer, []byte(`[1,{"no":1`)) {
				return conn.Close()
			}
		}
		_ = conn.Close()
	}
}
