package operator

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// What jobs write shows while they run, by a worker and by a master; each byte once.
func TestRunManualShowsOutputAsItComes(t *testing.T) {
	t.Parallel()
	db, gates := harness.NewDatabase(t), t.TempDir()
	master := harness.StartMaster(t)
	launcher := harness.Script(t, `echo "begin $1"; echo "err $1" >&2
until [ -e `+gates+`/$1 ]; do sleep 0.1; done
echo "end $1"; exit $(($1 % 2))`)
	worker := db.Worker(t, "node-1", launcher+" {id}", map[string]int{"a": 2}).With(harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	for _, test := range []struct {
		on       *harness.Daemon
		args     string
		ids      []int64
		out, err string
		code     int
	}{
		{worker, "run-manual 2", []int64{2}, "begin 2\nend 2\n", "err 2\n", 0},
		{worker, "run-manual 4 6", []int64{4, 6}, "begin 4\nbegin 6\nend 4\nend 6\n", "err 4\nerr 6\n", 0},
		{master, "--master run-manual 3", []int64{3}, "begin 3\nend 3\n", "err 3\njobctl: job 3: exit code 1\n", 1},
	} {
		for _, id := range test.ids {
			db.Insert(t, id, "a", "manual")
		}
		cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), arguments(t, test.on, strings.Fields(test.args)...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		pipe := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		out := bufio.NewReader(pipe)
		first, err := out.ReadString('\n') // the job can't end before this came
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range test.ids {
			must.Do(t, os.WriteFile(filepath.Join(gates, fmt.Sprint(id)), nil, 0o600))
		}
		var rest bytes.Buffer
		must.Get(rest.ReadFrom(out))(t)
		_ = cmd.Wait()
		if got := sorted(first + rest.String()); got != test.out || sorted(errs.String()) != test.err || cmd.ProcessState.ExitCode() != test.code {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", test.args, cmd.ProcessState.ExitCode(), got, errs.String())
		}
	}
}

// sorted gives the lines of an output in order of their words; of several jobs without the lines between them.
func sorted(text string) string {
	all := slices.DeleteFunc(slices.Collect(strings.Lines(text)), func(line string) bool { return strings.HasPrefix(line, "==> job ") })
	slices.Sort(all)
	return strings.Join(all, "")
}
