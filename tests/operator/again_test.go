package operator

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// site is two workers, one for each target, and a master; a job fails with the exit code that a
// file of its id says, as long as there is one.
type site struct {
	db           *harness.Database
	first, other *harness.Daemon
	master       *harness.Daemon
	codes        string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{db: harness.NewDatabase(t), codes: t.TempDir()}
	s.master = harness.StartMaster(t)
	launcher := harness.Script(t, `id=$1; f=`+s.codes+`/$id
echo "job $id" >> `+s.codes+`/starts
if [ -e $f ]; then echo "first line" >&2; echo "it breaks: $(cat $f)" >&2; exit $(cat $f); fi`)
	start := func(name, target string) *harness.Daemon {
		settings := s.db.Worker(t, name, launcher+" {id}", map[string]int{target: 2}).With(harness.MasterOf(s.master), harness.Settings{"poll_interval": "0"})
		return settings.StartWorker(t)
	}
	s.first, s.other = start("node-1", "a"), start("node-2", "b")
	harness.AwaitWorkers(t, s.master, "", 2)
	return s
}

// fails has a job end with an exit code for as long as it is not mended.
func (s *site) fails(t *testing.T, id int64, code int) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(s.codes, fmt.Sprint(id)), fmt.Appendf(nil, "%d", code), 0o600))
}

func (s *site) mended(t *testing.T, id int64) {
	t.Helper()
	must.Do(t, os.Remove(filepath.Join(s.codes, fmt.Sprint(id))))
}

// starts counts how often a job was started.
func (s *site) starts(t *testing.T, id int64) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.codes, "starts"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), fmt.Sprintf("job %d\n", id))
}

// run inserts rows and pokes, and waits until they are done.
func (s *site) run(t *testing.T, target string, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		s.db.Insert(t, id, target, "waiting")
	}
	if got := jobctl(t, s.master, "--master", "poke", target); got.code != 0 {
		t.Fatalf("poke: %+v", got)
	}
	for _, id := range ids {
		s.db.AwaitDone(t, id)
	}
}

func (s *site) jobctl(t *testing.T, args string) ran {
	t.Helper()
	return jobctl(t, s.master, append([]string{"--master"}, strings.Fields(args)...)...)
}

// lines are the objects that a command has printed.
func lines(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

// Jobs that failed are listed with why, counted, and run once more, by whichever worker serves them;
// what was retried since is no failure.
func TestJobsThatFailedAreRunOnceMore(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fails(t, 1, 3)
	s.fails(t, 2, 3)
	s.fails(t, 3, 75)
	s.run(t, "a", 1, 2, 5)
	s.run(t, "b", 3)
	s.db.Insert(t, 4, "b", "manual")
	s.fails(t, 4, 9)
	if got := s.jobctl(t, "run-manual b:4"); got.code != 1 {
		t.Fatalf("%+v", got)
	}
	s.db.AwaitDone(t, 4)

	got := s.jobctl(t, "failed --output json")
	list := lines(t, got.stdout)
	if got.code != 0 || len(list) != 4 {
		t.Fatalf("%+v", got)
	}
	if one := list[0]; one["worker"] != "node-2" || one["job"] != 4.0 || one["target"] != "b" || one["code"] != 9.0 || one["line"] != "it breaks: 9" {
		t.Errorf("the newest: %v", one)
	}
	if got := s.jobctl(t, "failed --target a -n 1"); got.code != 0 || strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stdout, "it breaks: 3") {
		t.Errorf("%+v", got)
	}
	groups := lines(t, s.jobctl(t, "failed --group --output json").stdout)
	if len(groups) != 3 || groups[0]["count"] != 2.0 || groups[0]["line"] != "it breaks: 3" {
		t.Errorf("groups: %v", groups)
	}
	if got := s.jobctl(t, "journal log --result fail --kind done --kind signal --output json"); strings.Count(got.stdout, "\n") != 4 {
		t.Errorf("%+v", got)
	}

	if got := s.jobctl(t, "retry --failed"); got.code != 2 || !strings.Contains(got.stderr, "--yes") || s.db.Count(t, "status = 'done'") != 5 {
		t.Errorf("where nobody can be asked: %+v", got)
	}
	if got := s.jobctl(t, "retry --failed --code 75 --dry-run"); got.code != 0 || !strings.Contains(got.stdout, "3") || s.db.Count(t, "status = 'done'") != 5 {
		t.Errorf("a dry run: %+v", got)
	}
	for _, id := range []int64{1, 3, 4} {
		s.mended(t, id)
	}
	if got := s.jobctl(t, "retry --failed --code 75 --yes"); got.code != 0 || !strings.Contains(got.stdout, "waiting") {
		t.Errorf("%+v", got)
	}
	s.db.AwaitCount(t, 1, "id = 3 AND status = 'done' AND result = 'ok'")
	got = s.jobctl(t, "retry 1 b:4 2 --output json")
	var answer struct {
		Jobs map[string]string
	}
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil || got.code != 0 || answer.Jobs["4"] != "manual" || answer.Jobs["1"] != "waiting" || answer.Jobs["2"] != "waiting" {
		t.Errorf("%+v", got)
	}
	if got := s.jobctl(t, "wait 1 2"); got.code != 1 || !strings.Contains(got.stderr, "job 2: exit code 3") || !strings.Contains(got.stdout, "ok") {
		t.Errorf("wait: %+v", got)
	}
	if row := s.db.Row(t, 4); row.Status != "manual" || s.starts(t, 4) != 1 {
		t.Errorf("the manual row: %+v", row)
	}
	list = lines(t, s.jobctl(t, "failed --output json").stdout)
	if len(list) != 1 || list[0]["job"] != 2.0 {
		t.Errorf("what is left: %v", list)
	}
	if s.starts(t, 1) != 2 || s.starts(t, 2) != 2 || s.starts(t, 3) != 2 || s.starts(t, 5) != 1 {
		t.Errorf("starts: %d %d %d %d", s.starts(t, 1), s.starts(t, 2), s.starts(t, 3), s.starts(t, 5))
	}
	if got := s.jobctl(t, "journal log --kind retried --by 127.0.0.1"); strings.Count(got.stdout, "\n") != 4 || !strings.Contains(got.stdout, "via master") {
		t.Errorf("%+v", got)
	}
	for _, check := range []string{"journal diff", "journal verify", "journal reapply --dry-run"} {
		if got := s.jobctl(t, check); got.code != 0 {
			t.Errorf("%s: %+v", check, got)
		}
	}
	if got := s.jobctl(t, "retry 1 99 b:2"); got.code != 1 || !strings.Contains(got.stderr, "job 99: the table has no such row") || !strings.Contains(got.stderr, "its target is 'a', not 'b'") {
		t.Errorf("%+v", got)
	}
	if got := s.jobctl(t, "retry 4"); got.code != 1 || !strings.Contains(got.stderr, "job 4: status = manual: only done or ignored rows are retried") {
		t.Errorf("%+v", got)
	}
}

// Before many jobs are run once more a person is asked, and only a yes is one.
func TestAPersonIsAskedBeforeARetry(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fails(t, 1, 3)
	s.fails(t, 2, 75)
	s.run(t, "a", 1, 2)
	s.mended(t, 1)
	s.mended(t, 2)
	const question = "2 jobs that failed since"
	ask := func() *terminal {
		term := openTerminal(t, s.master, 120, 24, "--master", "retry", "--failed")
		term.await(question, "(a 2) would be run once more. Go on? [y/N]")
		return term
	}
	for _, no := range []struct {
		keys  []string
		shown string
	}{
		{[]string{"n", "Enter"}, "nothing was changed\nexit code 1\n"},
		{[]string{"Enter"}, "nothing was changed\nexit code 1\n"},
		{[]string{"x", "y", "Enter"}, "nothing was changed\nexit code 1\n"},
		{[]string{"C-d"}, "nothing was changed\nexit code 1\n"},
		{[]string{"C-c"}, "interrupted\nexit code 130\n"},
		{[]string{"y", "C-c"}, "interrupted\nexit code 130\n"},
	} {
		term := ask()
		term.press(no.keys...)
		term.await(no.shown)
		if n := s.db.Count(t, "status = 'done' AND result = 'fail'"); n != 2 {
			t.Errorf("%q: %d rows are as they were", no.keys, n)
		}
	}
	if got := s.jobctl(t, "journal log --kind retried --output json"); got.code != 0 || got.stdout != "" {
		t.Errorf("the journal: %+v", got)
	}

	term := ask()
	term.press("y", "Enter")
	term.awaitTimes(2, "waiting", "exit code 0\n")
	s.db.AwaitCount(t, 2, "status = 'done' AND result = 'ok'")
	if s.starts(t, 1) != 2 || s.starts(t, 2) != 2 {
		t.Errorf("starts: %d %d", s.starts(t, 1), s.starts(t, 2))
	}
}
