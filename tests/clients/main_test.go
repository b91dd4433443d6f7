package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) {
	if os.Getenv("JOBD_CLIENT_DRIVER") != "" {
		os.Exit(drive(os.Args[1:]))
	}
	// Debian's drivers for Python and Node.js can't log in to a MySQL 9; its table is tested elsewhere.
	os.Unsetenv("JOBD_TEST_MYSQL_ROOT")
	harness.MainAtOnce(m, 4)
}

// language is one client with its driver.
type language struct {
	name    string
	command []string
	env     []string
}

// languages are the clients; each begins with its driver's command.
func languages(t *testing.T) []language {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return []language{
		{name: "php", command: []string{"php", testdata(t, "driver.php")}},
		{name: "python", command: []string{python(t), testdata(t, "driver.py")}},
		{name: "node", command: []string{"node", testdata(t, "driver.cjs")}, env: []string{"NODE_PATH=/usr/share/nodejs"}},
		{name: "go", command: []string{self}, env: []string{"JOBD_CLIENT_DRIVER=go"}},
		{name: "sh", command: []string{testdata(t, "driver.sh")}},
	}
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join("testdata", name)))(t)
	return path
}

// python is a Python that has the modules of Debian's packages: another one may come first in PATH.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import pymysql, django").Run() == nil {
			return name
		}
	}
	t.Fatal("no Python here has pymysql and django: run tools/deps.sh")
	return ""
}

// settings are environment variables for a driver.
type settings map[string]string

// daemon is how a driver reaches a worker or a master.
func daemon(addr string, master bool, password string) settings {
	host, port, _ := strings.Cut(addr, ":")
	return settings{
		"JOBCTL_HOST": host, "JOBCTL_PORT": port,
		"JOBCTL_MASTER": fmt.Sprint(master), "JOBCTL_PASSWORD": password,
	}
}

// with is the settings with others laid over them.
func (s settings) with(others settings) settings {
	merged := maps.Clone(s)
	maps.Copy(merged, others)
	return merged
}

// answer is what a driver printed: out, or the code and the text of an error.
type answer struct{ out, code, text string }

func (a answer) String() string {
	if a.code != "" {
		return fmt.Sprintf("error %s: %.300s", a.code, a.text)
	}
	return fmt.Sprintf("%.600s", a.out)
}

// call runs the driver. It may be called by any goroutine; what is no answer of a client's is an
// error with the code "driver".
func (l language) call(s settings, words ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 3*harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.command[0], slices.Concat(l.command[1:], words)...)
	cmd.Env = append(os.Environ(), "CLIENTS="+filepath.Join(harness.Top(), "examples", "clients"))
	cmd.Env = append(cmd.Env, "JOBCTL_TIMEOUT=90") // unless the case is about time
	cmd.Env = append(cmd.Env, l.env...)
	for name, value := range s {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return answer{code: "driver", text: "does not end; it wrote " + stdout.String() + stderr.String()}
	case err == nil || l.name == "sh" && errors.As(err, &exit) && exit.ExitCode() == 1:
		return answer{out: strings.TrimSpace(stdout.String())}
	case !errors.As(err, &exit):
		return answer{code: "driver", text: err.Error()}
	case l.name == "sh" && exit.ExitCode() > 2:
		return answer{code: fmt.Sprint(exit.ExitCode()), text: strings.TrimSpace(stderr.String())}
	}
	code, text, told := strings.Cut(strings.TrimSpace(stderr.String()), ": ")
	if exit.ExitCode() != 3 || !told {
		return answer{code: "driver", text: fmt.Sprintf("%v: %s%s", err, stdout.String(), stderr.String())}
	}
	return answer{code: code, text: text}
}

// failed tells whether the answer is an error of this code. The shell's are exit codes.
func (a answer) failed(l language, code string) bool {
	if l.name != "sh" {
		return a.code == code
	}
	switch code {
	case "unreachable":
		return a.code == "4"
	case "timeout", "lost":
		return a.code == "5"
	case "nonsense":
		return a.code == "6"
	}
	return a.code == "3"
}

// everywhere does something with each client, with all of them at once. It may not end the test.
func everywhere(t *testing.T, do func(t *testing.T, n int, l language)) {
	t.Helper()
	var all sync.WaitGroup
	for n, l := range languages(t) {
		all.Go(func() { do(t, n, l) })
	}
	all.Wait()
}
