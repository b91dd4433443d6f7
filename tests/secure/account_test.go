package secure

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Accounts that no passwd file names: the worker's, and those of jobs.
const (
	workerID  = "20101"
	jobsID    = "20102"
	anotherID = "20103"
)

// roleVariable makes the test binary the program of a job, which tells what it is and could do.
const roleVariable = "SECURE_TEST_ROLE"

// jobsTries is that program: a line for each thing that it was able to do.
func jobsTries() {
	if os.Getenv(roleVariable) == "stop" {
		stopAll()
		return
	}
	runtime.LockOSThread()
	status, _ := os.ReadFile("/proc/thread-self/status")
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t"); strings.HasPrefix(name, "Cap") && name != "CapBnd" && strings.Trim(value, "0") != "" {
			fmt.Println("has", name, value)
		}
	}
	groups, _ := os.Getgroups()
	fmt.Println("is", os.Getuid(), os.Geteuid(), os.Getgid(), groups)
	could := func(what string, err error) {
		if err == nil {
			fmt.Println("could", what)
		}
	}
	runner := os.Getppid()
	for name(runner) != "job-runner" { // a loop's job is its child
		runner = parentOf(runner)
	}
	worker := parentOf(runner)
	_, err := os.ReadFile(os.Getenv("TRY_CONFIG"))
	could("read the configuration", err)
	_, err = os.ReadDir(os.Getenv("TRY_JOURNAL"))
	could("read the journal", err)
	conn, err := net.Dial("unix", filepath.Join(os.Getenv("TRY_JOURNAL"), "runner.sock"))
	if could("call the runner", err); err == nil {
		conn.Close()
	}
	could("signal the runner", unix.Kill(runner, 0))
	could("signal the worker", unix.Kill(worker, 0))
	victim, _ := os.ReadFile(os.Getenv("TRY_VICTIM"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(victim)))
	could("signal another account's job", unix.Kill(max(pid, 1), 0))
	could("trace the worker", unix.PtraceSeize(worker))
	_, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", runner))
	could("read the runner's environment", err)
	could("make a capability ambient", unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SETUID, 0, 0))
	if errno := setuid(0); errno == 0 && os.Getenv("TRY_ROOT") == "" {
		fmt.Println("could become root")
	}
	stderr, err := os.OpenFile("/dev/stderr", os.O_WRONLY, 0)
	if err == nil {
		fmt.Fprintln(stderr, os.Getenv("HOME"), os.Getenv("USER"), os.Getenv("LOGNAME"), os.Getenv("SHELL"))
	}
}

// stopAll stops whatever has the same account, again and again, until it is told that this is enough.
func stopAll() {
	fmt.Println(os.WriteFile(filepath.Join(os.Getenv("TRY_PIDS"), "1"), []byte(strconv.Itoa(os.Getpid())), 0o644))
	for {
		_ = unix.Kill(-1, unix.SIGSTOP)
		if _, err := os.Stat(filepath.Join(os.Getenv("TRY_PIDS"), "enough")); err == nil {
			_ = unix.Kill(-1, unix.SIGCONT)
			return
		}
	}
}

// setuid changes this thread's account.
func setuid(uid uintptr) syscall.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_SETUID, uid, 0, 0)
	return errno
}

func name(pid int) string {
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(comm))
}

func parentOf(pid int) (parent int) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	_, _ = fmt.Sscanf(rest, "%s %d", new(string), &parent)
	return parent
}

// ground is a folder for a worker of another account than the test's, and what its jobs are.
type ground struct {
	t        *testing.T
	db       *harness.Database
	folder   string
	settings harness.Settings
}

// newGround makes one with programs that all accounts may execute.
func newGround(t *testing.T, targets map[string]int) *ground {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root starts a daemon of another account")
	}
	folder := must.Get(os.MkdirTemp("", "jobd-account-"))(t)
	t.Cleanup(func() { os.RemoveAll(folder) })
	g := &ground{t: t, db: harness.NewDatabase(t), folder: folder}
	self := must.Get(os.Executable())(t)
	g.must(os.Chmod(folder, 0o755))
	g.must(os.Mkdir(g.at("own"), 0o700))
	g.must(os.Chown(g.at("own"), 20101, 20101))
	for path, from := range map[string]string{"jobd": harness.Program(t, "jobd"), "job": self} {
		if out, err := exec.Command("install", "-m", "755", from, g.at(path)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	g.script("wait", "echo $$ >$TRY_PIDS/$1; id -u; exec sleep 300")
	g.script("pool", `echo ready >&4
while read -r word id rest <&3 && test $word = run; do echo started $id >&4; $TRY_JOB $id </dev/null 3>&- 4>&-; echo exit $id $? >&4; done`)
	g.script("fork", `echo ready >&4
while read -r word id rest <&3 && test $word = run; do
	setsid sh -c 'echo started $0 $$ >&4; exec $TRY_JOB $0 3>&- 4>&-' $id &
	wait $!; echo ended $id $(($? << 8)) >&4
done`)
	g.must(os.Mkdir(g.at("pids"), 0o777))
	g.must(os.Chmod(g.at("pids"), 0o777))
	g.settings = g.db.Worker(t, "worker", g.at("job")+" {id}", targets).With(harness.Settings{
		"journal_dir": g.at("own/journal"), "launcher.env." + roleVariable: "job", "launcher.env.TRY_CONFIG": g.at("jobd.conf"),
		"launcher.env.TRY_JOURNAL": g.at("own/journal"), "launcher.env.TRY_PIDS": g.at("pids"), "launcher.env.TRY_VICTIM": g.at("pids/1"),
		"launcher.env.TRY_JOB": g.at("job"), "on_stop": "handover",
	})
	return g
}

func (g *ground) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *ground) at(name string) string { return filepath.Join(g.folder, name) }

func (g *ground) script(name, body string) {
	g.t.Helper()
	g.must(os.Rename(harness.Script(g.t, body), g.at(name)))
}

// ambient has setpriv start a worker as systemd does with job-accounts.conf.
const ambient = " --inh-caps=+setuid,+setgid,+kill --ambient-caps=+setuid,+setgid,+kill"

// configure writes the configuration, which the worker alone may read.
func (g *ground) configure(more ...harness.Settings) {
	g.t.Helper()
	g.settings = g.settings.With(more...)
	g.must(os.WriteFile(g.at("jobd.conf"), []byte(g.settings.String()), 0o600))
	g.must(os.Chown(g.at("jobd.conf"), 20101, 20101))
}

// launch starts the worker under its account, with these privileges.
func (g *ground) launch(privileges string, args ...string) *harness.Daemon {
	g.t.Helper()
	return harness.LaunchBinary(g.t, g.starter(privileges, ""), g.at("jobd.conf"), g.settings.Addr(), args...)
}

// starter is a program that does something and becomes the worker.
func (g *ground) starter(privileges, first string) string {
	g.t.Helper()
	return harness.Script(g.t, first+"exec setpriv --reuid="+workerID+" --regid="+workerID+" --groups=4 --no-new-privs"+privileges+" "+g.at("jobd")+` "$@"`)
}

// run runs jobs of some targets, with ids from first, and gives what they say.
func (g *ground) run(d *harness.Daemon, first int64, targets ...string) (said []string) {
	g.t.Helper()
	g.begin(d, first, targets...)
	for i, target := range targets {
		row := g.db.AwaitDone(g.t, first+int64(i))
		if harness.Text(row.Result) != "ok" {
			g.t.Errorf("job of %s: %v", target, row)
		}
		said = append(said, strings.TrimSpace(harness.Text(row.Stdout)+harness.Text(row.Stderr)))
	}
	return said
}

func (g *ground) begin(d *harness.Daemon, first int64, targets ...string) {
	g.t.Helper()
	for i, target := range targets {
		g.db.Insert(g.t, first+int64(i), target, "waiting")
	}
	harness.Dial(g.t, d.Addr).Ask(g.t, "poll", nil)
}

// held waits until a process has written its number, as a job of g.at("wait") does, and gives it.
func (g *ground) held(id int64) (pid int) {
	g.t.Helper()
	harness.Until(g.t, func() string {
		text, _ := os.ReadFile(g.at("pids/" + strconv.FormatInt(id, 10)))
		if pid, _ = strconv.Atoi(strings.TrimSpace(string(text))); pid == 0 {
			return fmt.Sprintf("no process for job %d", id)
		}
		return ""
	})
	return pid
}

// accountOf is whose a process is.
func (g *ground) accountOf(pid int) uint32 {
	g.t.Helper()
	var process unix.Stat_t
	g.must(unix.Stat(fmt.Sprintf("/proc/%d", pid), &process))
	return process.Uid
}

// other are the terms of a target whose jobs have an account.
func other(target, user, group string, more ...harness.Settings) harness.Settings {
	s := harness.Settings{"launcher.user": user}
	if group != "" {
		s["launcher.group"] = group
	}
	return harness.Terms(target, s.With(more...))
}

// A worker with the three capabilities gives jobs their accounts, in each mode. Such a job can do nothing
// to worker, runner and jobs of others, and no job has a capability, or becomes root: also not one of the
// worker's own account.
func TestJobsOfAnotherAccount(t *testing.T) {
	t.Parallel()
	g := newGround(t, map[string]int{"held": 1, "own": 1, "other": 1, "named": 1, "root": 1, "pool": 1, "fork": 1})
	g.configure(
		other("held", anotherID, anotherID, harness.Settings{"launcher": g.at("wait") + " {id}"}),
		other("other", jobsID, jobsID), other("named", "nobody", ""), other("root", "root", "", harness.Settings{"launcher.env.TRY_ROOT": "1"}),
		other("pool", jobsID, jobsID, harness.Settings{"launcher": g.at("pool"), "launcher_mode": "pool"}),
		other("fork", jobsID, jobsID, harness.Settings{"launcher": g.at("fork"), "launcher_mode": "fork", "launcher.env.HOME": "/srv"}),
	)
	worker := g.launch(ambient).Ready(t)
	g.begin(worker, 1, "held")
	if uid := g.accountOf(g.held(1)); uid != 20103 {
		t.Errorf("the job that waits is of %d", uid)
	}
	said := g.run(worker, 2, "other", "named", "pool", "fork", "own", "root")
	const file = "is 20102 20102 20102 []\n"
	own := "is 20101 20101 20101 [4]\ncould read the configuration\ncould read the journal\ncould call the runner\ncould signal the runner\ncould signal the worker"
	for i, want := range []string{
		file + "/ 20102 20102 /bin/sh", "is 65534 65534 65534 [65534]\n/nonexistent nobody nobody /bin/sh",
		file + "/ 20102 20102 /bin/sh", file + "/srv 20102 20102 /bin/sh",
	} {
		if said[i] != want {
			t.Errorf("a job of another account says %q, want %q", said[i], want)
		}
	}
	if !strings.HasPrefix(said[4], own) || strings.Contains(said[4], "has Cap") || strings.Contains(said[4], "become root") {
		t.Errorf("a job of the worker's account says %q, want %q", said[4], own)
	}
	if !strings.Contains(said[5], "is 0 0 0 [0]\n") || !strings.Contains(said[5], "could signal another account's job") {
		t.Errorf("a job of root says %q", said[5])
	}
	if out, err := exec.Command("grep", "-h", "^Cap[IA]", worker.Proc("status"), fmt.Sprintf("/proc/%d/status", worker.Runner(t))).CombinedOutput(); err != nil || strings.Trim(string(out), "CapInhAmb:\t\n0") != "" {
		t.Errorf("what worker and runner pass on: %v: %s", err, out)
	}
	if out, code := jobctl(t, worker, "cancel", "1"); code != 0 {
		t.Errorf("cancel of another account's job: %s", out)
	}
	if row := g.db.AwaitDone(t, 1); harness.Text(row.Sig) != "SIGTERM" {
		t.Errorf("the cancelled job: %v", row)
	}
}

// Under a worker of root a job with an account has that and no capability, and one without is root, as ever:
// it can do all that the other one tries.
func TestJobsOfARootWorker(t *testing.T) {
	t.Parallel()
	g := newGround(t, map[string]int{"held": 1, "own": 1, "other": 1})
	g.configure(other("held", anotherID, anotherID, harness.Settings{"launcher": g.at("wait") + " {id}"}), other("other", jobsID, jobsID))
	worker := harness.LaunchBinary(t, g.at("jobd"), g.at("jobd.conf"), g.settings.Addr()).Ready(t)
	g.begin(worker, 1, "held")
	g.held(1)
	said := g.run(worker, 2, "other", "own")
	if want := "is 20102 20102 20102 []\n/ 20102 20102 /bin/sh"; said[0] != want {
		t.Errorf("a job of another account says %q, want %q", said[0], want)
	}
	for _, could := range []string{
		"has CapEff", "read the configuration", "read the journal", "call the runner", "signal the runner", "signal the worker",
		"signal another account's job", "trace the worker", "read the runner's environment", "become root",
	} {
		if !strings.Contains(said[1], could) {
			t.Errorf("a job of root does not say %q, but %q", could, said[1])
		}
	}
	if out, code := jobctl(t, worker, "cancel", "1"); code != 0 {
		t.Errorf("cancel: %s", out)
	}
	g.db.AwaitDone(t, 1)
}

// Worker, runner and pool processes may go and come: jobs keep their account, new ones get it, and can be
// ended, by the runner and by a worker whose runner was killed.
func TestAnAccountOutlivesWorkerAndRunner(t *testing.T) {
	t.Parallel()
	g := newGround(t, map[string]int{"held": 3, "other": 1, "pool": 1})
	g.configure(
		other("held", anotherID, anotherID, harness.Settings{"launcher": g.at("wait") + " {id}"}), other("other", jobsID, jobsID),
		other("pool", jobsID, jobsID, harness.Settings{"launcher": g.at("pool"), "launcher_mode": "pool"}),
	)
	id := int64(10)
	works := func(d *harness.Daemon, after string) {
		t.Helper()
		for i, said := range g.run(d, id, "other", "pool") {
			if want := "is 20102 20102 20102 []\n/ 20102 20102 /bin/sh"; said != want {
				t.Errorf("after %s job %d says %q, want %q", after, i, said, want)
			}
		}
		id += 2
	}
	ends := func(d *harness.Daemon, job int64, pid int, after string) {
		t.Helper()
		if out, code := jobctl(t, d, "cancel", strconv.FormatInt(job, 10)); code != 0 {
			t.Errorf("cancel after %s: %s", after, out)
		}
		g.db.AwaitDone(t, job)
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
			t.Errorf("after %s the cancelled process is still there: %s", after, stat)
		}
	}
	worker := g.launch(ambient).Ready(t)
	g.begin(worker, 1, "held", "held", "held")
	var pids [4]int
	for job := range int64(3) {
		pids[job+1] = g.held(job + 1)
	}
	works(worker, "the start")
	if out, code := jobctl(t, worker, "restart"); code != 0 {
		t.Fatalf("restart: %s", out)
	}
	if out, code := jobctl(t, worker, "recycle"); code != 0 {
		t.Fatalf("recycle: %s", out)
	}
	works(worker, "jobctl restart and recycle")
	ends(worker, 1, pids[1], "jobctl restart")

	worker.Kill(t)
	worker = g.launch(ambient).Ready(t)
	works(worker, "the worker was killed")
	ends(worker, 2, pids[2], "the worker was killed")

	g.must(unix.Kill(harness.RunnerOf(g.at("own/journal")), unix.SIGKILL))
	worker.AwaitSaid(t, "another runner starts the jobs from now on")
	works(worker, "the runner was killed")
	if uid := g.accountOf(g.held(3)); uid != 20103 {
		t.Errorf("the job without a runner is of %d", uid)
	}
	ends(worker, 3, pids[3], "the runner was killed")
}

// What is missing is told by --check and at the start. A runner from before the worker had the rights is
// left when its job has ended; until then nothing is started under an account that is not the job's.
func TestWithoutTheRightToChangeAccounts(t *testing.T) {
	t.Parallel()
	g := newGround(t, map[string]int{"held": 1, "other": 1, "pool": 1})
	g.configure(harness.Terms("held", harness.Settings{"launcher": g.at("wait") + " {id}"}),
		harness.Terms("pool", harness.Settings{"launcher": g.at("pool"), "launcher_mode": "pool"}))
	worker := g.launch("").Ready(t)
	g.begin(worker, 1, "held")
	pid := g.held(1)
	for i, said := range g.run(worker, 2, "other", "pool") {
		if !strings.HasPrefix(said, "is 20101 20101 20101 [4]\n") {
			t.Errorf("job %d without an account says %q", i, said)
		}
	}
	worker.Kill(t)

	g.configure(other("other", jobsID, jobsID), other("pool", jobsID, jobsID))
	const words = "launcher of [target other]: its jobs should run as user 20102, and this process lacks CAP_SETUID, CAP_SETGID"
	d := g.launch(" --inh-caps=+kill --ambient-caps=+kill")
	if code := d.ExitCode(t); code != 1 || !strings.Contains(d.Output(), words+"; start jobd as root") {
		t.Errorf("exit code %d, output %s", code, d.Output())
	}
	checked := g.launch(" --inh-caps=+kill --ambient-caps=+kill", "--check")
	if code := checked.ExitCode(t); code != 0 || !strings.Contains(checked.Output(), "warning  "+words+"; start jobd as root") {
		t.Errorf("--check: exit code %d, output %s", code, checked.Output())
	}

	worker = g.launch(ambient).Ready(t)
	g.begin(worker, 10, "other", "pool")
	for _, job := range []string{"10", "11"} {
		harness.Until(t, func() string {
			out, _ := jobctl(t, worker, "why", job)
			if strings.Contains(out, "was started before it was allowed to change to user 20102; it is replaced as soon as it has no job") {
				return ""
			}
			return out
		})
	}
	g.must(unix.Kill(-pid, unix.SIGTERM))
	for _, job := range []int64{10, 11} {
		if row := g.db.AwaitDone(t, job); !strings.HasPrefix(harness.Text(row.Stdout), "is 20102 20102 20102 []\n") {
			t.Errorf("job %d: %v", job, row)
		}
	}
}

// A reload gives new jobs another account; a pool process of the former one gets none of them.
func TestAnotherAccountAtAReload(t *testing.T) {
	t.Parallel()
	g := newGround(t, map[string]int{"other": 1, "pool": 1})
	pooled := harness.Settings{"launcher": g.at("pool"), "launcher_mode": "pool"}
	g.configure(other("other", jobsID, jobsID), other("pool", jobsID, jobsID, pooled))
	worker := g.launch(ambient).Ready(t)
	g.run(worker, 1, "other", "pool")
	g.script("late", "until test -e $TRY_PIDS/late; do sleep 0.05; done; exec "+g.at("pool"))
	pooled["launcher"] = g.at("late")
	g.configure(other("other", anotherID, anotherID), other("pool", anotherID, anotherID, pooled))
	if out, code := jobctl(t, worker, "reload"); code != 0 {
		t.Fatalf("reload: %s", out)
	}
	g.begin(worker, 3, "other", "pool")
	g.db.AwaitCount(t, 1, "id = 4 AND status <> 'waiting'") // the former process is there, and the next one is not ready
	harness.Touch(t, g.at("pids/late"))
	for _, job := range []int64{3, 4} {
		if row := g.db.AwaitDone(t, job); !strings.HasPrefix(harness.Text(row.Stdout), "is 20103 20103 20103 []\n") {
			t.Errorf("job %d: %v", job, row)
		}
	}
	g.configure(other("other", "root2", ""))
	if out, code := jobctl(t, worker, "reload"); code == 0 || !strings.Contains(out, "/etc/passwd has no account of that name") {
		t.Errorf("reload with an unknown account: %d: %s", code, out)
	}
}

// What the worker can execute and the account can't is found before a job is claimed for it.
func TestALauncherThatTheAccountMayNotExecute(t *testing.T) {
	t.Parallel()
	g := newGround(t, map[string]int{"other": 1})
	g.must(os.Chown(g.at("job"), 20101, 20101))
	g.must(os.Chmod(g.at("job"), 0o700))
	g.configure(other("other", jobsID, jobsID))
	d := g.launch(ambient)
	if code := d.ExitCode(t); code != 1 || !strings.Contains(d.Output(), "launcher of [target other]: it can't be executed: as user 20102: "+g.at("job")+": permission denied") {
		t.Errorf("exit code %d, output %s", code, d.Output())
	}
	g.must(os.Chmod(g.at("job"), 0o755))
	g.configure(harness.Terms("other", harness.Settings{"launcher.cwd": g.at("own")}))
	d = g.launch(ambient, "--check")
	if code := d.ExitCode(t); code != 1 || !strings.Contains(d.Output(), "it can't be executed: as user 20102: working folder: "+g.at("own")+": permission denied") {
		t.Errorf("exit code %d, output %s", code, d.Output())
	}
}

// Where a process ends before it says what it has forked for a job, that is killed: what has its socket, and
// no other process of its account. The runner can't trace any of them.
func TestWhatAnotherAccountHasForked(t *testing.T) {
	t.Parallel()
	g := newGround(t, map[string]int{"fork": 1, "other": 1})
	g.script("other", `setsid sh -c 'echo $$ >$TRY_PIDS/3; exec sleep 300' </dev/null >/dev/null 2>&1 &
until test -s $TRY_PIDS/3; do :; done`)
	g.script("fork", `echo ready >&4
read -r word id rest <&3 && test $word = run || exit 0
setsid sh -c 'echo $$ >$TRY_PIDS/1; exec sleep 300' </dev/null >/dev/null 2>&1 &
setsid sh -c 'echo $$ >$TRY_PIDS/2; exec sleep 300' </dev/null >/dev/null 2>&1 3<&- 4>&- &
until test -s $TRY_PIDS/1 && test -s $TRY_PIDS/2 && test -e $TRY_PIDS/go; do sleep 0.1; done
kill -KILL $$`)
	g.configure(other("fork", jobsID, jobsID, harness.Settings{"launcher": g.at("fork"), "launcher_mode": "fork"}),
		other("other", anotherID, anotherID, harness.Settings{"launcher": g.at("other") + " {id}"}))
	worker := g.launch(ambient).Ready(t)
	g.begin(worker, 1, "fork")
	forked := g.held(1)
	g.begin(worker, 2, "other")
	bystanders := []int{g.held(2), g.held(3)} // of its account, and what a job of another one has left
	t.Cleanup(func() {
		for _, pid := range bystanders {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	g.db.AwaitDone(t, 2)
	g.must(os.WriteFile(g.at("pids/go"), nil, 0o644))
	g.db.AwaitDone(t, 1)
	worker.AwaitSaid(t, fmt.Sprintf("as it had not said started: [%d]", forked))
	for _, pid := range bystanders {
		if err := unix.Kill(pid, 0); err != nil {
			t.Errorf("the other process %d is gone: %v", pid, err)
		}
	}
}

// A worker that could not find a job again whose runner was killed does not start it.
func TestAProcThatHidesOtherAccounts(t *testing.T) {
	t.Parallel()
	harness.NeedMachines(t)
	g := newGround(t, map[string]int{"other": 1})
	g.configure(other("other", jobsID, jobsID))
	const words = "this process sees no processes of other accounts in /proc; mount it without hidepid, or with gid="
	for options, hides := range map[string]bool{"hidepid=2": true, "hidepid=2,gid=" + workerID: false} {
		inside := g.starter(ambient, "mount --make-rprivate / && mount -t proc -o "+options+" proc /proc && ")
		d := harness.LaunchBinary(t, harness.Script(t, "exec unshare --mount "+inside+` "$@"`), g.at("jobd.conf"), g.settings.Addr(), "--check")
		if code := d.ExitCode(t); code != 0 || strings.Contains(d.Output(), words) != hides {
			t.Errorf("%s: exit code %d, output %s", options, code, d.Output())
		}
	}
}

// A job that stops whatever has its account, also in the moment between a change of account and the program,
// holds up the jobs of its account, and no others.
func TestAJobThatStopsItsAccount(t *testing.T) {
	t.Parallel()
	const stoppedID = "20104" // of no other test
	g := newGround(t, map[string]int{"stop": 1, "same": 5000, "other": 1})
	g.configure(other("stop", stoppedID, stoppedID, harness.Settings{"launcher.env." + roleVariable: "stop"}),
		other("same", stoppedID, stoppedID, harness.Settings{"launcher": "/bin/true {id}"}),
		other("other", jobsID, jobsID, harness.Settings{"launcher": "/bin/true {id}"}))
	worker := g.launch(ambient).Ready(t)
	g.begin(worker, 1, "stop")
	g.held(1)
	same := 0 // jobs, until one is stopped in the moment before its program
	harness.Until(t, func() string {
		if strings.Contains(worker.Output(), "a job was stopped before its program was executed") {
			return ""
		}
		if g.db.Count(t, "status = 'waiting'") == 0 && same < 5000 {
			g.begin(worker, int64(1000+same), slices.Repeat([]string{"same"}, 100)...)
			same += 100
		}
		return fmt.Sprintf("of %d jobs none was stopped so early", same)
	})
	g.begin(worker, 200, slices.Repeat([]string{"other"}, 10)...)
	g.db.AwaitCount(t, 10, "target = 'other' AND result = 'ok'")
	if running := g.db.Count(t, "target = 'stop' AND status = 'running'"); running != 1 {
		t.Error("nothing was stopped any more")
	}
	harness.Touch(t, g.at("pids/enough"))
	g.db.AwaitCount(t, 11+same, "status = 'done'")
}
