package audit

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// What happens while somebody follows through the master is told as it happens, with the worker's name; an interrupt ends it in order.
func TestFollowThroughTheMaster(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	one, _ := start(t, db, "node-1", "mail", 1, 1, harness.MasterOf(master))
	two, _ := start(t, db, "node-2", "report", 11, 1, harness.MasterOf(master))
	harness.AwaitWorkers(t, master, "", 2)

	_, port, _ := strings.Cut(master.Addr, ":")
	cmd := exec.CommandContext(t.Context(), harness.Program(t, "jobctl"), "--config", os.DevNull, "--master", "--port", port, "journal", "log", "--follow", "--kind", "done")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func(words ...string) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the following ended: %v", lines.Err())
		}
		for _, word := range words {
			if !strings.Contains(lines.Text(), word) {
				t.Fatalf("%q has no %q", lines.Text(), word)
			}
		}
	}
	next(" node-1 ", "job 1 ")
	next(" node-2 ", "job 11 ")
	for i, worker := range []*harness.Daemon{two, one} {
		target, name := []string{"report", "mail"}[i], []string{" node-2 ", " node-1 "}[i]
		db.Insert(t, int64(21+i), target, "waiting")
		harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
		next(name, []string{"job 21 ", "job 22 "}[i])
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}
