package why

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 8) } // most wait for daemons that do not answer

// ran is what a run of jobctl left behind.
type ran struct {
	stdout, stderr string
	code           int
}

func jobctl(t *testing.T, d *harness.Daemon, args ...string) ran {
	t.Helper()
	host, port, err := net.SplitHostPort(d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), append([]string{"--host", host, "--port", port, "--config", os.DevNull}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ran{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// saidOf is what why says of a job, in its form for programs.
type saidOf struct {
	Job              int64
	Reason, Sentence string
	Worker           string
}

// ask asks why; with flags before it, such as --master.
func ask(t *testing.T, d *harness.Daemon, id int64, flags ...string) (saidOf, ran) {
	t.Helper()
	got := jobctl(t, d, append(flags, "--output=json", "why", fmt.Sprint(id))...)
	var said saidOf
	if err := json.Unmarshal([]byte(got.stdout), &said); err != nil && got.stdout != "" {
		t.Fatalf("%+v: %v", got, err)
	}
	return said, got
}

// await waits until why tells a reason, in words that match a pattern.
func await(t *testing.T, d *harness.Daemon, id int64, reason, pattern string, flags ...string) saidOf {
	t.Helper()
	match := regexp.MustCompile("^" + pattern + "$")
	var said saidOf
	harness.Until(t, func() string {
		var got ran
		said, got = ask(t, d, id, flags...)
		if said.Reason != reason || !match.MatchString(said.Sentence) {
			return fmt.Sprintf("job %d: want %s: %s\ngot %+v", id, reason, pattern, got)
		}
		if want := map[string]int{"no-such-job": 4, "unreadable": 6}[reason]; got.code != want {
			return fmt.Sprintf("job %d: exit code %d: %+v", id, got.code, got)
		}
		return ""
	})
	return said
}

// quiet waits until a worker looks for no row of a job's target any more: until it is told to, it
// finds none.
func quiet(t *testing.T, d *harness.Daemon, id int64) {
	t.Helper()
	client := harness.Dial(t, d.Addr)
	defer client.Close()
	harness.Until(t, func() string {
		var answer struct {
			Jobs []struct{ Target *struct{ Looks bool } }
		}
		client.Ask(t, "explain", map[string]any{"ids": []int64{id}}).Decode(t, &answer)
		if job := answer.Jobs[0]; job.Target == nil || job.Target.Looks {
			return "the worker has not looked for rows yet"
		}
		return ""
	})
}

// clock is a time of today, or, around midnight, of another day.
const clock = `(\d{4}-\d\d-\d\d )?\d\d:\d\d`

// gate is a launcher whose jobs wait until the test opens it, and end with what their script says.
func gate(t *testing.T, then string) (launcher string, open func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "open")
	return harness.Script(t, fmt.Sprintf("while ! [ -e %s ]; do [ -e $0 ] || exit; sleep 0.2; done\n%s", file, then)) + " {id}",
		func() { harness.Touch(t, file) }
}

// A job's way from its row to its end, as a worker tells it.
func TestTheWayOfAJob(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher, open := gate(t, `echo "line one" >&2; echo "no mail for $1" >&2; exit 3`)
	w := db.Worker(t, "node-1", launcher, map[string]int{"a": 1}).With(harness.Settings{"prefetch": "1"}).StartWorker(t)
	await(t, w, 1, "no-such-job", "job 1: the table has no such row")
	db.Insert(t, 9, "a", "manual")
	quiet(t, w, 9)
	db.Insert(t, 1, "a", "waiting")
	await(t, w, 1, "unseen", `job 1 waits, and no worker looks for it: node-1 has room for target a, .*never by itself \(poll_interval = 0\)`)
	for id := int64(2); id <= 4; id++ {
		db.Insert(t, id, "a", "waiting")
	}
	jobctl(t, w, "poll", "a")
	await(t, w, 1, "running", `job 1 runs on node-1 since `+clock+` \(pid \d+\)`)
	await(t, w, 2, "prefetched", `job 2 was claimed by node-1 at `+clock+`, and is the next there for a slot: the one slot of target a is in use`)
	await(t, w, 3, "slots", `job 3 is the next of its target: the one slot of target a is in use, on node-1`)
	await(t, w, 4, "waiting", `job 4 waits behind 1 job of its target: the one slot of target a is in use, on node-1`)
	open()
	db.AwaitDone(t, 4)
	await(t, w, 1, "failed", `job 1 failed with exit code 3 at `+clock+` on node-1, after [0-9.]+(ms|s|m.*): no mail for 1`)
	if got := jobctl(t, w, "why", "1", "a:2", "8"); got.code != 4 || strings.Count(got.stdout, "\n") != 3 || !strings.Contains(got.stdout, "job 8: the table has no such row") {
		t.Errorf("of three: %+v", got)
	}
	if got := jobctl(t, w, "why", "b:2"); got.code != 4 || got.stdout != "job 2 is one of target a, not of b\n" {
		t.Errorf("of the wrong target: %+v", got)
	}
}

// What keeps a row that waits from being claimed, each told by the worker that it is about.
func TestWhatKeepsARowFromBeingClaimed(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	w := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"mail": 2, "pics": 1}).StartWorker(t)

	jobctl(t, w, "pause", "mail")
	db.Insert(t, 1, "mail", "waiting")
	jobctl(t, w, "poll", "mail")
	await(t, w, 1, "paused", `job 1 waits: its target mail is paused since `+clock+` by 127\.0\.0\.1 \(on node-1\)`)
	db.Insert(t, 2, "mial", "waiting")
	await(t, w, 2, "unserved", `job 2 waits, and node-1 does not serve its target mial \(did you mean mail\?\)`)
	db.Insert(t, 3, "x", "waiting")
	await(t, w, 3, "unserved", `job 3 waits, and node-1 does not serve its target x \(served are mail, pics\)`)
	db.Insert(t, 4, "mail", "manual")
	await(t, w, 4, "manual", `job 4 is manual: it runs when somebody asks for it \(jobctl run-manual 4\)`)

	db.Exec(t, "CREATE TRIGGER only BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF NEW.id = 5 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'; END IF; END")
	db.Insert(t, 5, "pics", "waiting")
	jobctl(t, w, "poll", "pics")
	await(t, w, 5, "refused", `job 5 is quarantined on node-1 since `+clock+`: the table refuses its claim: .*not this one.*`)
	db.Exec(t, "DROP TRIGGER only")

	tx := must.Get(db.Admin.Begin())(t)
	defer tx.Rollback()
	db.Insert(t, 6, "pics", "waiting")
	must.Get(tx.Exec("SELECT * FROM jobs WHERE id = 6 FOR UPDATE"))(t)
	jobctl(t, w, "poll", "pics")
	await(t, w, 6, "locked", `job 6 waits: node-1 claims nothing for target \w+.*: somebody else has locked the rows that wait.*`)
	must.Do(t, tx.Rollback())
	db.AwaitDone(t, 6)
	await(t, w, 6, "done", `job 6 is done: ok at `+clock+` on node-1, after .*`)
}
