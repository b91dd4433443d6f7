package lifecycle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 4) }

// Two jobs run and two more are claimed when the worker is told to stop: the first two
// end in peace, the others go back as they were, and nothing new is claimed.
func TestSIGTERMDrains(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.NewOracle(t, harness.Gate)
	worker := db.Worker(t, "worker", launcher.Command, map[string]int{"a": 2}).
		With(harness.Settings{"prefetch": "2"}).StartWorker(t)
	db.InsertMany(t, 6, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.AwaitStarts(t, 2)
	db.AwaitCount(t, 2, "status = 'accepted'")

	worker.Signal(t, syscall.SIGTERM)
	db.AwaitCount(t, 4, "status = 'waiting' AND COALESCE(sig, '') = ''")
	if !worker.Running() {
		t.Fatal("it did not wait for the jobs that run")
	}
	launcher.LetGo(t)
	check.Equal(t, worker.ExitCode(t), 0, "exit code")
	if done := db.Count(t, "status = 'done' AND result = 'ok' AND stdout = CONCAT('out ', id, '\n')"); done != 2 {
		t.Errorf("%d jobs are done, want 2", done)
	}
	launcher.ExpectOnce(t, 2)
}

// A second SIGTERM does not wait for a job that has all the time in the world and
// heeds no signal; the job is not forgotten, and not run again.
func TestSecondSIGTERM(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher := harness.NewOracle(t, harness.Gate)
	stubborn := harness.Script(t, fmt.Sprintf("trap '' TERM\nexec %s", launcher.Script+` "$1"`))
	settings := db.Worker(t, "worker", stubborn+" {id}", map[string]int{"a": 1}).
		With(harness.Settings{"shutdown_timeout": "0"})
	worker := settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	launcher.AwaitStarts(t, 1)
	worker.Signal(t, syscall.SIGTERM)
	worker.AwaitSaid(t, "stopping")
	worker.Signal(t, syscall.SIGTERM)
	worker.ExitCode(t)
	launcher.LetGo(t)
	settings.StartWorker(t)
	if row := db.AwaitDone(t, 1); harness.Text(row.Result) != "fail" && !isRight(row, 1) {
		t.Errorf("the row says %s", row)
	}
	launcher.ExpectOnce(t, 1)
}

// targets is each target's concurrency, as the worker tells it.
func targets(t *testing.T, client *harness.Wire) string {
	t.Helper()
	var status struct {
		Targets map[string]struct{ Concurrency int }
	}
	client.Ask(t, "status", nil).Decode(t, &status)
	concurrency := map[string]int{}
	for name, target := range status.Targets {
		concurrency[name] = target.Concurrency
	}
	return fmt.Sprint(concurrency)
}

// Whoever looks for the worker by its name, as ss, pgrep and the kernel's log have it, finds it, also
// after a restart; pkill jobd finds no runner.
func TestNamesOfProcesses(t *testing.T) {
	t.Parallel()
	settings := harness.NewDatabase(t).Worker(t, "worker", "/bin/echo {id}", map[string]int{"a": 1})
	worker := harness.LaunchBinary(t, harness.Program(t, "jobd"), settings.Write(t), settings.Addr()).Ready(t)
	for _, when := range []string{"when it was started", "after a restart"} {
		check.Equal(t, comm(t, worker.Pid), "jobd", "the worker is called … %s", when)
		check.Equal(t, comm(t, worker.Runner(t)), "job-runner", "its runner is called … %s", when)
		if out, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), ctlFlags(worker, "restart")...).CombinedOutput(); err != nil {
			t.Fatalf("jobctl restart: %v: %s", err, out)
		}
	}
}

func comm(t *testing.T, pid int) string {
	t.Helper()
	name := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)))(t)
	return strings.TrimSpace(string(name))
}

// Signals of the first moments of a start are heeded as later ones are: a SIGHUP changes nothing, a SIGTERM or
// SIGINT ends the daemon in order. The runtime tells when the daemon is so far that it can catch them, which is before most of its
// packages are ready. A worker executes itself once more, and where a SIGTERM or SIGINT meets that it ends at once; a SIGHUP never
// ends it.
func TestSignalsOfTheFirstMoments(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.Settings{"host": "127.0.0.1", "port": "0"}
	worker := db.Worker(t, "early", "/bin/true {id}", map[string]int{"a": 1}).With(harness.Settings{"port": "0"})
	for program, settings := range map[string]harness.Settings{"jobd-master": master, "jobd": worker} {
		t.Run(program, func(t *testing.T) {
			binary, config := harness.Program(t, program), settings.Write(t)
			for try := range 30 {
				first := []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT}[try%3]
				d := exec.Command(binary, "--config", config)
				d.Env = append(os.Environ(), "GODEBUG=inittrace=1")
				said, err := d.StderrPipe()
				if err == nil {
					err = d.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(said)
				for lines.Scan() && !strings.HasPrefix(lines.Text(), "init jobd/cmd/internal/signals ") {
				}
				drained := make(chan struct{})
				go func() { defer close(drained); _, _ = io.Copy(io.Discard, said) }()
				<-time.After(rand.N(8 * time.Millisecond))
				_ = d.Process.Signal(first)
				_ = d.Process.Signal(syscall.SIGTERM) // a SIGHUP alone is no end
				<-drained
				err = d.Wait()
				var exit *exec.ExitError
				if errors.As(err, &exit) && program == "jobd" && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGHUP {
					err = nil
				}
				if err != nil {
					t.Errorf("try %d: %s in its first moments: %v", try, first, err)
				}
			}
		})
	}
}

// A signal that comes while the worker still waits for a database that does not answer is heeded
// when it is up; it does not end the worker in the middle of its start.
func TestSIGHUPDuringTheStart(t *testing.T) {
	t.Parallel()
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	_, port, _ := strings.Cut(silent.Addr().String(), ":")
	settings := harness.NewDatabase(t).Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).
		With(harness.Settings{"mysql_host": "127.0.0.1", "mysql_port": port})
	worker := harness.Launch(t, "jobd", settings.Write(t), settings.Addr())
	harness.AwaitFile(t, filepath.Join(settings["journal_dir"], "lock"))
	worker.Signal(t, syscall.SIGHUP)
	worker.Ready(t)
	worker.Signal(t, syscall.SIGTERM)
	check.Equal(t, worker.ExitCode(t), 0, "exit code")
}

// late starts a worker with a job that may run for five seconds, and waits until that is known to
// run. The job says in a file that it was asked to end, and does so, with exit code 0.
func late(t *testing.T) (db *harness.Database, settings harness.Settings, worker *harness.Daemon, asked string) {
	t.Helper()
	db, asked = harness.NewDatabase(t), filepath.Join(t.TempDir(), "asked")
	begun := filepath.Join(t.TempDir(), "begun")
	launcher := harness.Script(t, fmt.Sprintf(`trap 'touch %s; exit 0' TERM; echo begun; touch %s; sleep 300 & wait`, asked, begun))
	settings = db.Worker(t, "worker", launcher+" {id}", map[string]int{"a": 1}).
		With(harness.Settings{"target.a.timeout": "5", "target.a.kill_after": "1h"})
	worker = settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	harness.AwaitFile(t, begun)
	return db, settings, worker, asked
}

const endedLate = "[jobd: ended after its timeout of 5s, with SIGTERM]\n"

// The worker is killed while the timeout runs: it is over while nobody is there, and the next start
// tells how the job ended.
func TestTimeoutWhileTheWorkerIsKilled(t *testing.T) {
	t.Parallel()
	db, settings, worker, asked := late(t)
	worker.Kill(t)
	harness.AwaitFile(t, asked)
	settings.StartWorker(t)
	row := db.AwaitDone(t, 1)
	if harness.Text(row.Result) != "fail" || row.Code == nil || *row.Code != 0 || row.Sig != nil ||
		harness.Text(row.Stdout) != "begun\n" || harness.Text(row.Stderr) != endedLate {
		t.Errorf("%s: want a failure with code 0, and %q", row, endedLate)
	}
	harness.VerifyJournal(t, settings)
}

// Pitfall 33: a worker takes all the descriptors that it may have, so that thousands of connections fit, and its jobs
// find the limit that the worker was started with.
func TestPitfall33JobsDoNotInheritTheRaisedLimit(t *testing.T) {
	t.Parallel()
	const soft, hard, connections = 256, 2000, 1000
	db := harness.NewDatabase(t)
	s := db.Worker(t, "worker", harness.Script(t, `ulimit -Sn; ulimit -Hn`)+" {id}", map[string]int{"a": 1})
	limited := harness.Script(t, fmt.Sprintf(`exec prlimit --nofile=%d:%d %s "$@"`, soft, hard, harness.Program(t, "jobd")))
	worker := harness.LaunchBinary(t, limited, s.Write(t), s.Addr()).Ready(t)

	limits := must.Get(os.ReadFile(worker.Proc("limits")))(t)
	_, limit, _ := strings.Cut(string(limits), "Max open files")
	var files int
	if _, err := fmt.Sscan(limit, &files); err != nil || files < hard-1 {
		t.Errorf("the worker may open %d files, and could have %d (%v)", files, hard, err)
	}
	for i := range connections {
		conn, err := net.Dial("tcp", worker.Addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
	}
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	if row, want := db.AwaitDone(t, 1), fmt.Sprintf("%d\n%d\n", soft, hard); harness.Text(row.Stdout) != want {
		t.Errorf("the job's limits are %q, want %q", harness.Text(row.Stdout), want)
	}
}
