package executors

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// service is what jobs are sent to that are requests.
type service interface {
	start(t *testing.T)
	kill() // as a crash would end it
}

func (s *site) startServices() {
	s.t.Helper()
	for _, service := range s.services {
		service.start(s.t)
	}
}

func (s *site) killServices() {
	for _, service := range s.services {
		service.kill()
	}
}

// fpm is php-fpm, with a socket of its own.
type fpm struct {
	socket, config string
	master         *exec.Cmd
}

// startFPM starts it with so many processes. A job that was cancelled keeps one.
func startFPM(t *testing.T, dir string, processes int) *fpm {
	t.Helper()
	f := &fpm{config: filepath.Join(dir, "fpm.conf")}
	folder, err := os.MkdirTemp("", "jobd-fpm-") // the path of a socket may not be long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	f.socket = filepath.Join(folder, "s")
	lines := []string{
		"[global]", "error_log = " + filepath.Join(dir, "fpm.log"), "daemonize = no",
		"[www]", "listen = " + f.socket, "pm = static", fmt.Sprint("pm.max_children = ", processes),
	}
	if os.Getuid() == 0 {
		lines = append(lines, "user = root", "group = root")
	}
	must.Do(t, os.WriteFile(f.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	f.start(t)
	t.Cleanup(f.kill)
	return f
}

func (f *fpm) start(t *testing.T) {
	t.Helper()
	programs, err := filepath.Glob("/usr/sbin/php-fpm*")
	if err != nil || len(programs) == 0 {
		t.Fatalf("there is no php-fpm (%v): make deps installs it", err)
	}
	args := []string{"-F", "-n", "-y", f.config}
	if os.Getuid() == 0 {
		args = append(args, "-R")
	}
	f.master = exec.Command(slices.Max(programs), args...)
	f.master.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, f.master.Start())
	awaitAddress(t, "unix", f.socket)
}

// kill ends the master, its processes, and their jobs.
func (f *fpm) kill() {
	_ = syscall.Kill(-f.master.Process.Pid, syscall.SIGKILL) // it may have been killed
	_ = f.master.Wait()
}

// turnInPHP runs the script for a request, in the loop's place.
const turnInPHP = `$files = [tempnam('DIR', 'out'), tempnam('DIR', 'err')];
    $job = proc_open(['DIR/job.sh', (string) $id, 'VERSION'],
        [['file', '/dev/null', 'r'], ['file', $files[0], 'w'], ['file', $files[1], 'w']], $pipes, null, ['JOBD_ATTEMPT' => $_SERVER['JOBD_ATTEMPT']] + getenv());
    while (($status = proc_get_status($job))['running']) usleep(2000);
    readfile($files[0]);
    if ($status['signaled']) exit(http_response_code(500));
    return $status['exitcode'];`

// script is the launcher of jobs that php-fpm runs, in a version of it.
func (s *site) script(version string) string {
	s.t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(harness.Top(), "examples", "launchers", "fastcgi.php")))(s.t)
	const prints = `echo "job $id, attempt ", $_SERVER['JOBD_ATTEMPT'], "\n";`
	if !strings.Contains(string(text), prints) {
		s.t.Fatal("fastcgi.php has no line that prints the attempt")
	}
	body := strings.NewReplacer("DIR", s.dir, "VERSION", version).Replace(turnInPHP)
	name := version + ".php"
	s.program(name, strings.Replace(string(text), prints, body, 1))
	return fmt.Sprintf("fastcgi:%s %s", s.fpm.socket, s.path(name))
}
