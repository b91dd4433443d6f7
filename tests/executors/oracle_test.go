package executors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// entry is a line that a job has written.
type entry struct {
	word    string // start, said or end
	job     int64
	attempt int
	version string
	pid     int
}

// read reads what the jobs have written, in its order.
func (s *site) read() (entries []entry) {
	text, err := os.ReadFile(s.path("oracle"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		var e entry
		if _, err := fmt.Sscanf(line, "%s %d %d %s %d\n", &e.word, &e.job, &e.attempt, &e.version, &e.pid); err != nil {
			s.t.Errorf("the oracle says %q: %v", line, err)
		}
		entries = append(entries, e)
	}
	return entries
}

// awaitSaid waits until an attempt of a job has written what it writes before it is struck, and gives its process.
func (s *site) awaitSaid(id int64, attempt int) (pid int) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		for _, e := range s.read() {
			if e.word == "said" && e.job == id && e.attempt == attempt {
				pid = e.pid
				return ""
			}
		}
		return fmt.Sprintf("attempt %d of job %d has not said that: %s", attempt, id, s.Row(s.t, id))
	})
	return pid
}

// startedOnce checks that no attempt of any job was started twice.
func (s *site) startedOnce() {
	s.t.Helper()
	type start struct {
		job     int64
		attempt int
	}
	seen := map[start]entry{}
	for _, e := range s.read() {
		if e.word != "start" {
			continue
		}
		key := start{e.job, e.attempt}
		if before, is := seen[key]; is {
			s.t.Errorf("attempt %d of job %d was started twice, as process %d by version %s and as process %d by version %s",
				e.attempt, e.job, before.pid, before.version, e.pid, e.version)
		}
		seen[key] = e
	}
}

// most is how many jobs of each executor have run at the same time, of those that came to their
// end.
func (s *site) most() map[string]int {
	s.t.Helper()
	entries, ended := s.read(), map[int]bool{}
	for _, e := range entries {
		ended[e.pid] = ended[e.pid] || e.word == "end"
	}
	running, most := map[string]int{}, map[string]int{}
	for _, e := range entries {
		name := s.executors[e.job/ids-1].name
		switch {
		case e.word == "end":
			running[name]--
		case e.word == "start" && ended[e.pid]:
			running[name]++
		}
		most[name] = max(most[name], running[name])
	}
	return most
}

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
	if harness.Long() {
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
	answer := client.Ask(s.t, "poll", nil)
	must.Equal(s.t, answer.Error, "")
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

// peer is a service that runs jobs, in a process of its own.
type peer struct {
	url, addr, dir string
	process        *exec.Cmd
}

// asPeer says to this program that it is to be a peer, where, and whose jobs it runs.
const asPeer = "JOBD_TEST_PEER"

func startPeer(t *testing.T, dir string) *peer {
	t.Helper()
	p := &peer{addr: net.JoinHostPort("127.0.0.1", harness.FreePort(t)), dir: dir}
	p.url = "http://" + p.addr
	p.start(t)
	t.Cleanup(p.kill)
	return p
}

// start starts it, or starts it again, and waits until it can be reached.
func (p *peer) start(t *testing.T) {
	t.Helper()
	p.process = exec.Command(os.Args[0])
	p.process.Env = append(os.Environ(), asPeer+"="+p.addr+" "+p.dir)
	p.process.Stderr = os.Stderr
	must.Do(t, p.process.Start())
	awaitAddress(t, "tcp", p.addr)
}

// awaitAddress waits until somebody takes connections there.
func awaitAddress(t *testing.T, network, addr string) {
	t.Helper()
	harness.Until(t, func() string {
		conn, err := net.DialTimeout(network, addr, time.Second)
		if err != nil {
			return err.Error()
		}
		conn.Close()
		return ""
	})
}

// kill ends it as a crash would. Its jobs run on.
func (p *peer) kill() {
	_ = p.process.Process.Kill() // it may have been killed
	_ = p.process.Wait()
}

// runPeer is the peer: POST /VERSION/ID runs a job.
func runPeer(task string) int {
	addr, dir, _ := strings.Cut(task, " ")
	listener, err := net.Listen("tcp", addr)
	for errors.Is(err, syscall.EADDRINUSE) { // a child of the one that was killed, on its way to its program, has it still
		<-time.After(time.Millisecond)
		listener, err = net.Listen("tcp", addr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		words := strings.Split(r.URL.Path, "/")
		if r.Method != http.MethodPost || len(words) != 3 {
			http.NotFound(w, r)
			return
		}
		turn(r.Context(), w, dir, words[2], words[1], r.Header.Get("Jobd-Attempt"))
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// turn runs a job as long as somebody waits for its answer. What it writes goes into files: so
// nobody waits for what it has left behind.
func turn(ctx context.Context, w http.ResponseWriter, dir, id, version, attempt string) {
	job := exec.CommandContext(ctx, dir+"/job.sh", id, version)
	job.Env = append(os.Environ(), "JOBD_ATTEMPT="+attempt)
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	job.Cancel = func() error { return syscall.Kill(-job.Process.Pid, syscall.SIGKILL) }
	var output [2]*os.File
	for i := range output {
		var err error
		if output[i], err = os.CreateTemp(dir, "output"); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer output[i].Close()
	}
	job.Stdout, job.Stderr = output[0], output[1]
	err := job.Run()
	if job.Process != nil {
		_ = syscall.Kill(-job.Process.Pid, syscall.SIGKILL) // what it has left
	}
	if err == nil {
		_, _ = w.Write(written(output[0]))
		return
	}
	if code := job.ProcessState.ExitCode(); code >= 0 {
		w.Header().Set("Jobd-Exit-Code", strconv.Itoa(code))
	}
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write(append(written(output[0]), written(output[1])...))
}

func written(file *os.File) []byte {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, math.MaxInt64))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return text
}
