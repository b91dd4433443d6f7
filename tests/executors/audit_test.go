package executors

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// lasting is a job that lasts long enough to be struck.
const lasting = "sleep 0.05; code=$((id % 4))"

// insertMore adds so many jobs of each executor.
func (l *load) insertMore(n int) {
	l.t.Helper()
	for range n {
		for _, e := range l.executors {
			l.insert(e, l.jobs, lasting, waiting)
		}
		l.jobs++
	}
}

// mayBe tells whether a job may have ended otherwise than by itself where something was killed at
// any moment. What kills a process ends the job that it has, and is seen. Where a process was asked
// for a job and is gone before it has answered, nobody knows.
func (e executor) mayBe(how string, killed string) bool {
	switch killed {
	case theWorker, theRunner:
		return how == unknown && e.known[killed] == unknown
	}
	return how == unknown && (e.mode != "" || e.service) || how == bySIG && !e.service
}

// audit waits until all jobs are done, and compares what the table says with what the jobs have
// written. So many outcomes of each executor may be unknown at most.
func (l *load) audit(killed string, most int) {
	l.t.Helper()
	all := l.jobs * len(l.executors)
	for done := -1; done != all; { // the long form has many; as long as some end, it waits for the others
		harness.Until(l.t, func() string {
			before := done
			if done = l.Count(l.t, "status = 'done'"); done == before {
				return fmt.Sprintf("%d of %d jobs are done; some of the others: %s", done, all, l.undone())
			}
			return ""
		})
	}
	ends := map[int64]bool{}
	for _, line := range l.read() {
		if line.word == "end" {
			ends[int64(line.job)] = true
		}
	}
	for _, e := range l.executors {
		found := map[string]int{}
		for n := range l.jobs {
			id := l.id(e, n)
			row := l.Row(l.t, id)
			switch how := l.how(row, id); {
			case how == "":
				if !ends[id] {
					l.t.Errorf("%s: job %d has ended by itself, and has not: %s", e.name, id, row)
				}
			case e.mayBe(how, killed):
				found[how]++
			default:
				l.t.Errorf("%s: job %d has ended otherwise than it should have: %s", e.name, id, row)
			}
		}
		if found[unknown] > most {
			l.t.Errorf("%s: %d outcomes are unknown, and there can be %d", e.name, found[unknown], most)
		}
		l.t.Logf("%s: %d jobs, %d unknown, %d killed", e.name, l.jobs, found[unknown], found[bySIG])
	}
	l.startedOnce()
}

// how tells how a job ended that was struck, "" for one that was not.
func (l *load) how(row harness.Row, id int64) string {
	want := "ok"
	if id%4 != 0 {
		want = "fail"
	}
	switch {
	case strings.HasPrefix(shown(row), unknown):
		return unknown
	case row.Code != nil && int64(*row.Code) == id%4 && harness.Text(row.Result) == want:
		return ""
	case strings.HasPrefix(shown(row), "fail - SIGKILL "):
		return bySIG
	}
	return shown(row)
}

// undone tells of some rows that are not done.
func (l *load) undone() (rows string) {
	l.t.Helper()
	must.Do(l.t, l.Admin.QueryRowContext(l.t.Context(), "SELECT COALESCE(GROUP_CONCAT(CONCAT(id, ' ', status, ' ', COALESCE(sig, '')) SEPARATOR ', '), '') "+
		"FROM (SELECT id, status, sig FROM jobs WHERE status <> 'done' LIMIT 10) AS some").Scan(&rows))
	return rows
}

// atOnce asks something of one job of each executor.
type atOnce struct {
	name   string // of the case
	script string
	want   string
	ask    func(t *testing.T, s *site, e executor, id int64)
}

var asked = []atOnce{
	{"cancelled", "echo out; said; exec sleep 300", `fail - SIGTERM "out\n" "[jobd: cancelled by 127.0.0.1]\n"`, cancel},
	{"signalled", "echo out; said; exec sleep 300", `fail - SIGUSR2 "out\n" ""`, signal(unix.SIGUSR2)},
	{"ended", "echo out; said; exec sleep 300", `fail - SIGINT "out\n" ""`, signal(unix.SIGINT)},
}

// Clients cancel jobs, and send them signals. A request takes no signals but those that cancel it.
func TestSignalled(t *testing.T) {
	t.Parallel()
	newSite(t, 1).signalAll(t)
}

// signalAll asks all of that of all executors.
func (s *site) signalAll(t *testing.T) {
	for _, e := range s.executors {
		for i, c := range asked {
			s.insert(e, i, c.script, waiting)
		}
	}
	s.start()
	for _, e := range s.executors {
		t.Run(e.name, func(t *testing.T) {
			for i, c := range asked {
				id := s.id(e, i)
				s.awaitSaid(id, 1)
				s.AwaitStatus(t, id, "running")
				c.ask(t, s, e, id)
				check.Equal(t, shown(s.AwaitDone(t, id)), e.want(c.name, c.want), "%s: it ended as …, not as", c.name)
			}
			// What came of that is nobody else's matter.
			s.runsNext(t, e, len(asked))
		})
	}
	s.startedOnce()
}

func cancel(t *testing.T, s *site, _ executor, id int64) {
	client := harness.Dial(t, s.settings.Addr())
	defer client.Close()
	var answer struct {
		Jobs map[string]struct{ State string }
	}
	client.Ask(t, "cancel", map[string]any{"ids": []int64{id}}).Decode(t, &answer)
	check.Equal(t, answer.Jobs[strconv.FormatInt(id, 10)].State, "cancelling", "job %d is", id)
}

// signal sends one, and then what ends everything where it is refused.
func signal(signo unix.Signal) func(*testing.T, *site, executor, int64) {
	return func(t *testing.T, s *site, e executor, id int64) {
		client := harness.Dial(t, s.settings.Addr())
		defer client.Close()
		send := func(signo unix.Signal) (sent bool) {
			var answer map[string]bool
			client.Ask(t, "send-signal", map[string]any{"jobs": map[string]int{fmt.Sprint(id): int(signo)}}).Decode(t, &answer)
			return answer[fmt.Sprint(id)]
		}
		takes := e.takes == nil || e.takes[signo]
		if sent := send(signo); sent != takes {
			t.Errorf("job %d: %s was sent: %t", id, unix.SignalName(signo), sent)
		}
		if !takes && !send(unix.SIGTERM) {
			t.Errorf("job %d takes no SIGTERM", id)
		}
	}
}

// runsNext checks that an executor's next job, the nth, goes well.
func (s *site) runsNext(t *testing.T, e executor, n int) {
	t.Helper()
	id := s.insert(e, n, "echo next", waiting)
	s.poke()
	check.Equal(t, shown(s.AwaitDone(t, id)), `ok 0 - "next\n" ""`, "the next job ended as …, not as")
}

// cases are jobs, and what becomes of them in a process of their own.
var cases = []struct{ name, script, columns, want string }{
	{"output", `echo out`, "", `ok 0 - "out\n" ""`},
	{"stderr", `echo out; echo err >&2`, "", `ok 0 - "out\n" "err\n"`},
	{"no end of a line", `printf out`, "", `ok 0 - "out" ""`},
	{"nothing", `:`, "", `ok 0 - "" ""`},
	{"exit code", `echo out; exit 7`, "", `fail 7 - "out\n" ""`},
	{"exit code 255", `exit 255`, "", `fail 255 - "" ""`},
	{"SIGKILL", `echo out; kill -KILL $$`, "", `fail - SIGKILL "out\n" "[jobd: killed by a SIGKILL that was not jobd's]\n"`},
	{"SIGTERM", `echo out; kill -TERM $$`, "", `fail - SIGTERM "out\n" ""`},
	{"timeout", `echo out; exec sleep 300`, "timeout = 15", late},
	{"timeout, deaf", `trap '' TERM; echo out; sleep 300`, "timeout = 15", `fail - SIGKILL "out\n" "[jobd: ended after its timeout of 15s, with SIGTERM and, 5s later, SIGKILL]\n"`},
	{"at the limit", `head -c 4096 /dev/zero | tr '\0' x`, "", `ok 0 - <4096 bytes> ""`},
	{"both at the limit", `head -c 4096 /dev/zero | tr '\0' x; head -c 4096 /dev/zero | tr '\0' y >&2`, "", `ok 0 - <4096 bytes> <4096 bytes>`},
	{"beyond the limit", `head -c 1000000 /dev/zero | tr '\0' x`, "", `ok 0 - <4138 bytes> ""`},
	{"NUL bytes", `printf 'a\0b\0'`, "", `ok 0 - "a\x00b\x00" ""`},
	{"bytes that are no text", `printf 'a\377b'`, "", `ok 0 - "a�b" ""`},
	{"stdin is empty", `cat; echo out`, "", `ok 0 - "out\n" ""`},
	{"a child keeps the pipe", `sleep 300 & echo out`, "", `ok 0 - "out\n" ""`},
	{"a child that left its group keeps the pipe", `setsid sleep 300 & echo "start $id 99 - $!" >>"$dir/oracle"; echo out`, "", `ok 0 - "out\n" ""`},
	{"its number", `echo $attempt`, "max_attempts = 3", `ok 0 - "1\n" ""`},
	{"tried again", `echo $attempt; test $attempt = 2 || code=3`, "max_attempts = 2", `ok 0 - "2\n" ""`},
}

// Two of the slots are held by timeouts.
func TestCases(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4, harness.Settings{"max_output_buffer": "4096"})
	s.runCases(t, func(string) bool { return true })
}

// runCases runs those cases with all executors. On a host so busy that a process can't answer within
// 5 s, jobd ends that process, and nobody knows what became of its job: it is run again then, as the
// configuration says, and has to end as it should.
func (s *site) runCases(t *testing.T, has func(name string) bool) {
	s.settings = s.settings.With(harness.Settings{"on_crash": "requeue"})
	for _, e := range s.executors {
		s.settings = s.settings.With(harness.Terms(e.name, harness.Settings{"kill_after": "5s", "backoff": "1s"}))
		for i, c := range cases {
			columns := []string{waiting}
			if c.columns != "" {
				columns = append(columns, c.columns)
			}
			if has(c.name) {
				s.insert(e, i, c.script, columns...)
			}
		}
	}
	s.start()
	for _, e := range s.executors {
		t.Run(e.name, func(t *testing.T) {
			for i, c := range cases {
				if !has(c.name) {
					continue
				}
				row := s.AwaitDone(t, s.id(e, i))
				check.Equal(t, shown(row), e.want(c.name, c.want), "%s: it ended as …, not as", c.name)
			}
		})
	}
	s.startedOnce()
}
