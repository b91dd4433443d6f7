package executors

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(asPeer); task != "" {
		os.Exit(runPeer(task))
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set("4") // most of the time they wait
	}
	harness.Main(m)
}

// site is a database, a worker that has a target for each executor, and the jobs' scripts.
type site struct {
	*harness.Database
	t         *testing.T
	dir       string
	peer      *peer
	fpm       *fpm
	services  []service
	executors []executor
	settings  harness.Settings
	config    string
}

// ids is how many ids an executor's jobs have: those of the first begin at 100,000, and so on.
const ids = 100_000

// waiting is what an application says of a row that a worker is to take.
const waiting = "status = 'waiting'"

// jobScript is what a job does, whatever runs it. Its arguments are the id and the version of the
// launcher. A job that is to be struck behind its output tells by said, or at its gate, that it has
// written that.
const jobScript = `#!/bin/sh
id=$1 version=$2 attempt=${JOBD_ATTEMPT:-1} dir=${0%/*}
echo "start $id $attempt $version $$" >>"$dir/oracle"
said() { echo "said $id $attempt $version $$" >>"$dir/oracle"; }
gate() { said; : <"$dir/gate"; }
if test -e "$dir/work/$id"; then . "$dir/work/$id"; else echo "out $id"; echo "err $id" >&2; code=$((id % 4)); fi
echo "end $id $attempt $version $$" >>"$dir/oracle"
exit ${code:-0}
`

// turnInPython has a pool's process run the script, and end by the signal that has ended it.
const turnInPython = `import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # it ends a process, as elsewhere
def turn(job):
    code = subprocess.run([sys.argv[1], str(job), sys.argv[2]]).returncode
    if code < 0:
        os.kill(os.getpid(), -code)
    return code
`

// newPlace makes a site whose worker has no targets yet.
func newPlace(t *testing.T) *site {
	t.Helper()
	s := &site{Database: harness.NewDatabase(t, harness.TimesTable), t: t, dir: t.TempDir()}
	must.Do(t, os.Mkdir(s.path("work"), 0o755))
	must.Do(t, syscall.Mkfifo(s.path("gate"), 0o600))
	s.settings = s.Worker(t, "worker", "true {id}", nil).With(harness.UsesAll)
	t.Cleanup(s.clean)
	return s
}

// newSite makes a site. Each target has so many slots. The long form has a target for each loop in
// examples/launchers, too.
func newSite(t *testing.T, slots int, settings ...harness.Settings) *site {
	t.Helper()
	all := executors()
	if long() {
		all = append(all, languages()...)
	}
	return newSiteOf(t, all, slots, settings...)
}

// newSiteOf makes a site with those executors.
func newSiteOf(t *testing.T, all []executor, slots int, settings ...harness.Settings) *site {
	t.Helper()
	s := newPlace(t)
	s.executors = all
	s.program("job.sh", jobScript)
	for _, e := range all {
		if e.service {
			s.peer, s.fpm = startPeer(t, s.dir), startFPM(t, s.dir, slots+8)
			s.services = []service{s.peer, s.fpm}
			break
		}
	}
	for _, e := range s.executors {
		s.copyLoop(e)
		s.settings = s.settings.With(harness.Targets(map[string]int{e.name: slots}), e.keys(s, "one"))
	}
	s.settings = s.settings.With(settings...)
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// program writes an executable file, see harness.Script.
func (s *site) program(name, text string) {
	s.t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(s.path(name), []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		s.t.Fatal(err)
	}
}

// copyLoop copies an executor's loop, in which jobs are the script.
func (s *site) copyLoop(e executor) {
	s.t.Helper()
	if e.file == "" {
		return
	}
	text := must.Get(os.ReadFile(filepath.Join(harness.Top(), "examples", "launchers", e.file)))(s.t)
	lines, replaced := strings.Split(string(text), "\n"), false
	for i, line := range lines {
		if strings.Contains(line, ", attempt ") && !replaced {
			lines[i], replaced = line[:len(line)-len(strings.TrimLeft(line, " "))]+e.run, true
		}
	}
	if !replaced {
		s.t.Fatalf("%s has no line that prints the attempt", e.file)
	}
	head := ""
	if strings.HasSuffix(e.file, ".py") {
		head = turnInPython
	}
	s.program(e.file, head+strings.Join(lines, "\n"))
}

// loop is the command of a loop.
func (s *site) loop(file, interpreter, version string) string {
	return strings.Join([]string{interpreter, s.path(file), s.path("job.sh"), version}, " ")
}

// start starts the worker, or starts it again.
func (s *site) start() *harness.Daemon {
	s.t.Helper()
	if s.config == "" {
		s.config = s.settings.Write(s.t)
	}
	return harness.Launch(s.t, "jobd", s.config, s.settings.Addr()).Ready(s.t)
}

// id is an executor's nth job, from 0.
func (s *site) id(e executor, n int) int64 {
	for i, other := range s.executors {
		if other.name == e.name {
			return int64((i+1)*ids + n)
		}
	}
	s.t.Fatalf("there is no executor %s", e.name)
	return 0
}

// insert adds an executor's nth job, which does what a script says. more are columns with values.
func (s *site) insert(e executor, n int, script string, more ...string) int64 {
	s.t.Helper()
	id := s.id(e, n)
	if script != "" {
		must.Do(s.t, os.WriteFile(s.path("work/"+strconv.FormatInt(id, 10)), []byte(script), 0o644))
	}
	s.Exec(s.t, "INSERT INTO jobs SET "+strings.Join(append(more, "id = ?, target = ?, time_created = UNIX_TIMESTAMP()"), ", "), id, e.name)
	return id
}

// poke has the worker look for work.
func (s *site) poke() {
	s.t.Helper()
	client := harness.Dial(s.t, s.settings.Addr())
	defer client.Close()
	if answer := client.Ask(s.t, "poll", nil); answer.Error != "" {
		s.t.Fatal(answer.Error)
	}
}

// open lets the jobs that wait at the gate, and all to come, go on.
func (s *site) open() {
	s.t.Helper()
	gate := must.Get(os.OpenFile(s.path("gate"), os.O_RDWR, 0))(s.t)
	s.t.Cleanup(func() { gate.Close() })
}

// clean kills what is left of the site.
func (s *site) clean() {
	if pid := harness.RunnerOf(s.settings["journal_dir"]); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be ending by itself
	}
	for _, entry := range s.read() {
		words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", entry.pid))
		if err == nil && (strings.Contains(string(words), s.dir) || string(words) == "sleep\x00300\x00") {
			_ = syscall.Kill(entry.pid, syscall.SIGKILL)
		}
	}
}

// shown is how a job ended.
func shown(r harness.Row) string {
	stderr := harness.Text(r.Stderr)
	if harness.Text(r.Result) == "fail" && r.Code == nil && strings.Contains(stderr, "outcome unknown") {
		return unknown
	}
	code, sig := "-", "-"
	if r.Code != nil {
		code = strconv.Itoa(*r.Code)
	}
	if r.Sig != nil && *r.Sig != "" {
		sig = *r.Sig
	}
	return fmt.Sprintf("%s %s %s %s %s", harness.Text(r.Result), code, sig, brief(r.Stdout), brief(r.Stderr))
}

func brief(s *string) string {
	if text := harness.Text(s); len(text) > 500 {
		return fmt.Sprintf("<%d bytes>", len(text))
	}
	return strconv.Quote(harness.Text(s))
}
