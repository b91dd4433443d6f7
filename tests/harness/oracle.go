package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Oracle is a launcher, and the file in which each of its jobs notes its start and its end: what ran,
// whatever the table and the journals say.
type Oracle struct {
	Dir     string // of files by which a test steers jobs
	Script  string // the launcher, which takes a job's id
	Command string // the same as a worker is configured
}

// Gate makes jobs wait until the test lets them go. Without the folder, which goes with the test, no job stays.
const Gate = `while [ -d $dir ] && [ ! -e $dir/go ] && [ ! -e $dir/go-$id ]; do sleep 0.1; done`

// NewOracle makes a launcher. Between its two marks a job does what the script says, in which $id is the job and
// $dir the oracle's folder, and it prints "out ID". It exits with $code, which is 0 unless the script sets it.
func NewOracle(t testing.TB, script string) Oracle {
	t.Helper()
	dir := t.TempDir()
	launcher := Script(t, fmt.Sprintf(`id=$1 code=0 dir=%s
read -r stat < /proc/$$/stat
set -- $stat
mark="$id ${SITE_WORKER:--} ${JOBD_ATTEMPT:-1} ${JOBD_MAX_ATTEMPTS:-0} ${JOBD_PLANNED:-0} ${JOBD_RECOVERED:-0} $$ ${22}"
echo "start $mark" >> $dir/oracle
%s
echo "out $id"
echo "end $mark" >> $dir/oracle
exit $code`, dir, script))
	return Oracle{Dir: dir, Script: launcher, Command: launcher + " {id}"}
}

// Mark is a line of the oracle: what a job was told as it was started, and its process.
type Mark struct {
	Word               string // start or end
	Job                int64
	Worker             string // its variable SITE_WORKER
	Attempt, Most      int
	Planned, Recovered int64
	Pid                int
	Ticks              int64 // when the process was made, by the kernel, in ticks since boot
}

func (m Mark) String() string {
	return fmt.Sprintf("{job %d on %s, attempt %d of %d, planned for %d, recovered %d, process %d}",
		m.Job, m.Worker, m.Attempt, m.Most, m.Planned, m.Recovered, m.Pid)
}

// Marks are all lines that are complete, in their order; of some jobs only where they are named.
func (o Oracle) Marks(t testing.TB, jobs ...int64) (marks []Mark) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(o.Dir, "oracle"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	for line := range strings.Lines(string(content)) {
		var m Mark
		if _, err := fmt.Sscan(line, &m.Word, &m.Job, &m.Worker, &m.Attempt, &m.Most, &m.Planned, &m.Recovered, &m.Pid, &m.Ticks); err != nil {
			t.Fatalf("the oracle says %q: %v", line, err)
		}
		if len(jobs) == 0 || slices.Contains(jobs, m.Job) {
			marks = append(marks, m)
		}
	}
	return marks
}

// Starts are the marks of starts.
func (o Oracle) Starts(t testing.TB, jobs ...int64) []Mark {
	t.Helper()
	return slices.DeleteFunc(o.Marks(t, jobs...), func(m Mark) bool { return m.Word != "start" })
}

// Ended are the jobs that have come to their end at least once.
func (o Oracle) Ended(t testing.TB) map[int64]bool {
	t.Helper()
	ended := map[int64]bool{}
	for _, m := range o.Marks(t) {
		ended[m.Job] = ended[m.Job] || m.Word == "end"
	}
	return ended
}

// AwaitStarts waits until there are so many starts, of some jobs where they are named.
func (o Oracle) AwaitStarts(t testing.TB, n int, jobs ...int64) (starts []Mark) {
	t.Helper()
	Until(t, func() string {
		if starts = o.Starts(t, jobs...); len(starts) < n {
			return fmt.Sprintf("there are %d starts, not %d: %v", len(starts), n, starts)
		}
		return ""
	})
	return starts
}

// ExpectOnce checks that n jobs were started, each once.
func (o Oracle) ExpectOnce(t testing.TB, n int) {
	t.Helper()
	times := map[int64]int{}
	for _, start := range o.Starts(t) {
		if times[start.Job]++; times[start.Job] > 1 {
			t.Errorf("job %d was started %d times", start.Job, times[start.Job])
		}
	}
	check.Equal(t, len(times), n, "jobs were started")
}

// LetGo lets jobs pass the gate, none named: all there are and will be.
func (o Oracle) LetGo(t testing.TB, jobs ...int64) {
	t.Helper()
	if len(jobs) == 0 {
		Touch(t, filepath.Join(o.Dir, "go"))
	}
	for _, id := range jobs {
		Touch(t, filepath.Join(o.Dir, fmt.Sprintf("go-%d", id)))
	}
}

// EndWith kills, when the test ends, what a worker that was killed has left: its runner and its jobs.
func (o Oracle) EndWith(t testing.TB, worker Settings) {
	t.Cleanup(func() {
		if pid := RunnerOf(worker["journal_dir"]); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be ending by itself
		}
		for _, start := range o.Starts(t) {
			words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", start.Pid))
			if err == nil && bytes.Contains(words, []byte(o.Script)) {
				_ = syscall.Kill(-start.Pid, syscall.SIGKILL) // it may end by itself meanwhile
			}
		}
	})
}

// VerifyJournal reads a worker's journal from its beginning: sequence, chain and transitions.
func VerifyJournal(t testing.TB, worker Settings) {
	t.Helper()
	reader := must.Get(replay.Open(worker["journal_dir"]))(t)
	must.Get(verify.Audit(t.Context(), reader.Folder(), nil, nil))(t)
}

// Events reads a worker's journal: the events of some kinds, or all.
func Events(t testing.TB, worker Settings, kinds ...journal.Kind) (found []journal.Event) {
	t.Helper()
	reader := must.Get(replay.Open(worker["journal_dir"]))(t)
	for e, err := range reader.Events(t.Context(), journal.Filter{Kinds: kinds}) {
		must.Do(t, err)
		found = append(found, e)
	}
	return found
}

// Long tells the long form of tests, which TORTURE=long chooses, from the short one.
func Long() bool { return os.Getenv("TORTURE") == "long" }

// Size is a number that depends on the form.
func Size[N any](short, inLong N) N {
	if Long() {
		return inLong
	}
	return short
}
