package lifecycle

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A job kills the runner and listens in its place, in the worker's account. Later jobs are run all the
// same, by a runner of the worker's own; log and journal say that the runner was replaced.
func TestAJobThatTakesTheRunnersPlaceGetsNoJobs(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	settings := db.Worker(t, "worker", "", map[string]int{"a": 2})
	dir := t.TempDir()
	settings["launcher"] = harness.Script(t, `[ "$1" = 1 ] || { echo "$1" >>`+dir+`/run; exit 7; }
exec perl -MIO::Socket::UNIX -e 'my $s = IO::Socket::UNIX->new(Local => "$ARGV[0].new", Listen => 9);
rename "$ARGV[0].new", $ARGV[0]; kill 9, getppid; open(F, ">", "$ARGV[1].new"); print F $$; close F; rename "$ARGV[1].new", $ARGV[1]; push @peers, $s->accept while 1' `+settings["journal_dir"]+`/runner.sock `+dir+`/listens`) + " {id}"
	worker := settings.StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	client := harness.Dial(t, worker.Addr)
	client.Ask(t, "poll", nil)
	harness.AwaitFile(t, dir+"/listens")
	text := must.Get(os.ReadFile(dir + "/listens"))(t)
	pid := must.Get(strconv.Atoi(string(text)))(t)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	for id := range int64(4) {
		db.Insert(t, id+2, "a", "waiting")
	}
	client.Ask(t, "poll", nil)
	db.AwaitCount(t, 4, "status = 'done' AND result = 'fail' AND return_code = 7")
	log, err := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"),
		"--config=", "journal", "log", "--journal", settings["journal_dir"], "--kind", "runner").CombinedOutput()
	if err != nil || strings.Count(string(log), "before=") != 1 {
		t.Errorf("%v: the journal tells of replaced runners:\n%s", err, log)
	}
	if !strings.Contains(worker.Output(), "the runner was replaced, and not by this worker") {
		t.Errorf("the worker's log does not tell of it:\n%s", worker.Output())
	}
	if !strings.Contains(worker.Output(), "another process listens in the place of the runner") {
		t.Errorf("the worker did not find the other process:\n%s", worker.Output())
	}
}
