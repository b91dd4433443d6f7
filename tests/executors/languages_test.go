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

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// languages are the loops of examples/launchers, in each language: executors, too. Their jobs run
// the script as a program of theirs would: they wait for it, and end as it has.
func languages() []executor {
	loop := func(file, interpreter, body string) executor {
		mode, _, _ := strings.Cut(file, ".")
		e := executor{
			name: strings.Replace(file, ".", "-", 1), mode: mode, file: file, run: body, parent: 1, self: 1, stays: true,
			words:   func(s *site, version string) string { return s.loop(file, interpreter, version) },
			differs: map[string]string{"timeout, deaf": late}, // the script is deaf, and its process is not
			known:   map[string]string{theWorker: trueEnd, theRunner: unknown, theParent: bySIG, theSelf: bySIG, theHost: unknown},
		}
		if mode == "fork" {
			e.parent, e.known[theParent] = 2, trueEnd
		}
		return e
	}
	return []executor{
		loop("fork.php", "/usr/bin/php", turnInForkedPHP), loop("pool.php", "/usr/bin/php", turnInForkedPHP),
		loop("fork.py", "/usr/bin/python3", "return turn(job)"),
		loop("fork.rb", "/usr/bin/ruby", turnInRuby), loop("pool.rb", "/usr/bin/ruby", turnInRuby),
		loop("pool.cjs", "/usr/bin/node", turnInNode),
	}
}

// How a job runs the script in each language, and ends by the signal that has ended it.
const (
	turnInForkedPHP = `$child = pcntl_fork();
    if ($child === 0) pcntl_exec($GLOBALS['argv'][1], [(string) $id, $GLOBALS['argv'][2]]);
    pcntl_waitpid($child, $status);
    if (pcntl_wifsignaled($status)) posix_kill(getmypid(), pcntl_wtermsig($status));
    return pcntl_wexitstatus($status);`
	turnInRuby = `trap "INT", "SYSTEM_DEFAULT" # it ends a process, as elsewhere
  system(ARGV[0], job.to_s, ARGV[1])
  Process.kill($?.termsig, $$) if $?.signaled?
  return $?.exitstatus`
	turnInNode = `const job_ = require('node:child_process').spawnSync(process.argv[2], [String(job), process.argv[3]], { stdio: 'inherit' });
  if (job_.signal) process.kill(process.pid, job_.signal);
  return job_.status;`
)

// few are the cases that each language has in the short form; the long one has all.
var few = map[string]bool{
	"output": true, "stderr": true, "exit code": true, "exit code 255": true, "SIGKILL": true, "SIGTERM": true, "timeout": true,
	"beyond the limit": true, "bytes that are no text": true, "stdin is empty": true, "a child keeps the pipe": true, "tried again": true,
}

// Every loop in examples/launchers runs jobs as a process of their own does. Of two slots the timeout
// holds one; each slot more would be three interpreters more that start at once.
func TestLanguages(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, languages(), 2, harness.Settings{"max_output_buffer": "4096"})
	s.runCases(t, func(name string) bool { return harness.Long() || few[name] })
}

// What is sent to a job reaches it in every language.
func TestLanguagesSignalled(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, languages(), 1)
	s.signalAll(t)
}

// No language is forgotten.
func TestEveryLoopIsTried(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{"fastcgi.php": true} // of the services
	for _, e := range append(executors(), languages()...) {
		tried[e.file] = true
	}
	files, err := os.ReadDir(filepath.Join(harness.Top(), "examples", "launchers"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no loops: ", err)
	}
	for _, file := range files {
		if !tried[file.Name()] {
			t.Error(file.Name(), " is in no table")
		}
	}
}

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
	must.Contains(s.t, string(text), prints, "fastcgi.php has no line that prints the attempt")
	body := strings.NewReplacer("DIR", s.dir, "VERSION", version).Replace(turnInPHP)
	name := version + ".php"
	s.program(name, strings.Replace(string(text), prints, body, 1))
	return fmt.Sprintf("fastcgi:%s %s", s.fpm.socket, s.path(name))
}

// executor is something that runs jobs. Its name is that of its target, too.
type executor struct {
	name  string
	mode  string // launcher_mode; "": none is said
	words func(s *site, version string) string
	file  string // of the loop in examples/launchers; "": none
	run   string // and what stands there in place of the line that prints

	// Of a job's process, which it has written into the oracle: how many generations above it its
	// parent is, and the process that is the job itself to jobd; -1: there is none to be killed.
	parent, self int

	service bool                 // jobs are requests to the peer
	stays   bool                 // its processes have many jobs
	takes   map[unix.Signal]bool // the signals that its jobs can be sent; nil: all

	// What differs from a process of its own, by the name of the case.
	differs map[string]string
	// What is known of a job that runs when something is killed, by what is killed.
	known map[string]string
}

// What is known of a job.
const (
	unknown = "unknown"
	trueEnd = `ok 0 - "before\nafter\n" ""`
	bySIG   = `fail - SIGKILL "before\n" "[jobd: killed by a SIGKILL that was not jobd's]\n"`
	nothing = "" // there is no such thing to be killed
)

// late is a job that did not heed its timeout, but for SIGTERM.
const late = `fail - SIGTERM "out\n" "[jobd: ended after its timeout of 15s, with SIGTERM]\n"`

// What can be killed.
const (
	theWorker = "the worker"
	theRunner = "the runner"
	theParent = "the parent, or the process of the pool"
	theSelf   = "the child, or the peer"
	theHost   = "the host"
)

// overHTTP is what a request gives less. The peer answers 200 with what a job that has succeeded
// wrote to stdout; of one that has failed it tells the exit code, and both streams.
var overHTTP = map[string]string{
	"stderr":            `ok 0 - "out\n" ""`,
	"exit code":         `fail 7 - "" "HTTP/1.1 500 Internal Server Error\nout\n"`,
	"exit code 255":     `fail 255 - "" "HTTP/1.1 500 Internal Server Error\n"`,
	"SIGKILL":           `fail 5 - "" "HTTP/1.1 500 Internal Server Error\nout\n"`,
	"SIGTERM":           `fail 5 - "" "HTTP/1.1 500 Internal Server Error\nout\n"`,
	"timeout":           unknown,
	"timeout, deaf":     unknown,
	"both at the limit": `ok 0 - <4096 bytes> ""`,
	"cancelled":         unknown,
	"signalled":         unknown,
	"ended":             unknown,
}

// overFastCGI is the same of the script that php-fpm runs: status 500 stands for a signal.
var overFastCGI = map[string]string{
	"stderr":            `ok 0 - "out\n" ""`,
	"exit code":         `fail 7 - "" "Status: 200 OK\nout\n"`,
	"exit code 255":     `fail 255 - "" "Status: 200 OK\n"`,
	"SIGKILL":           `fail 5 - "" "Status: 500 Internal Server Error\nout\n"`,
	"SIGTERM":           `fail 5 - "" "Status: 500 Internal Server Error\nout\n"`,
	"timeout":           unknown,
	"timeout, deaf":     unknown,
	"both at the limit": `ok 0 - <4096 bytes> ""`,
	"cancelled":         unknown,
	"signalled":         unknown,
	"ended":             unknown,
}

func executors() []executor {
	python := func(file string) func(*site, string) string {
		return func(s *site, version string) string { return s.loop(file, "/usr/bin/python3", version) }
	}
	return []executor{
		{
			name: "process", parent: -1,
			words: func(s *site, version string) string { return s.path("job.sh") + " {id} " + version },
			known: map[string]string{theWorker: trueEnd, theRunner: unknown, theParent: nothing, theSelf: bySIG, theHost: unknown},
		},
		{
			name: "fork", mode: "fork", parent: 1, stays: true,
			file: "fork.pl", run: "{ exec $ARGV[0], $job, $ARGV[1] }",
			words: func(s *site, version string) string { return s.loop("fork.pl", "/usr/bin/perl", version) },
			known: map[string]string{theWorker: trueEnd, theRunner: unknown, theParent: trueEnd, theSelf: bySIG, theHost: unknown},
		},
		{
			name: "pool", mode: "pool", parent: 1, self: 1, stays: true,
			file: "pool.py", run: "return turn(job)", words: python("pool.py"),
			differs: map[string]string{"timeout, deaf": late}, // the script is deaf, and its process is not
			known:   map[string]string{theWorker: trueEnd, theRunner: unknown, theParent: bySIG, theSelf: bySIG, theHost: unknown},
		},
		{
			name: "http", service: true, parent: -1, self: 1,
			words:   func(s *site, version string) string { return s.peer.url + "/" + version + "/{id}" },
			takes:   map[unix.Signal]bool{unix.SIGTERM: true, unix.SIGINT: true, unix.SIGKILL: true},
			differs: overHTTP,
			known:   map[string]string{theWorker: unknown, theRunner: trueEnd, theParent: nothing, theSelf: unknown, theHost: unknown},
		},
		{
			name: "fastcgi", service: true, parent: -1, self: 1,
			words:   func(s *site, version string) string { return s.script(version) },
			takes:   map[unix.Signal]bool{unix.SIGTERM: true, unix.SIGINT: true, unix.SIGKILL: true},
			differs: overFastCGI,
			known:   map[string]string{theWorker: unknown, theRunner: trueEnd, theParent: nothing, theSelf: unknown, theHost: unknown},
		},
	}
}

// keys is an executor's section of the configuration.
func (e executor) keys(s *site, version string) harness.Settings {
	keys := harness.Settings{"launcher": e.words(s, version)}
	if e.mode != "" {
		keys["launcher_mode"] = e.mode
	}
	return harness.Terms(e.name, keys)
}

// want is what a case gives with this executor.
func (e executor) want(name, otherwise string) string {
	if differs, is := e.differs[name]; is {
		return differs
	}
	return otherwise
}
