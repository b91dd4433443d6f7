package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// scene is what an operator finds: a master, and workers that share the table.
//
//	job 1 runs on node-1, job 2 has failed, job 3 is manual, the jobs from 10 on wait,
//	job 4 is for a target that nobody serves
type scene struct {
	*harness.Database
	master  *harness.Daemon
	workers []*harness.Daemon
	waits   string // how long a command waits for what may not come
}

// ownServer starts a server that stops, or whose counters count, for one test only.
func ownServer(t *testing.T) *dbserver.Server {
	t.Helper()
	server := must.Get(dbserver.Start(context.Background(), dbserver.Options{}))(t)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// newScene starts workers node-1, node-2, …, each of which serves the target a, and one of its own.
func newScene(t *testing.T, db *harness.Database, workers, waiting int) *scene {
	t.Helper()
	s := &scene{Database: db, master: harness.StartMaster(t), waits: "20s"}
	launcher := harness.Script(t, `
case $1 in
1) echo working; exec sleep 600;;
2) echo "it went wrong" >&2; exit 3;;
esac`)
	for n := range workers {
		targets := map[string]int{"a": 1, fmt.Sprintf("only-%d", n+1): 1}
		d := s.Worker(t, fmt.Sprintf("node-%d", n+1), launcher+" {id}", targets).With(harness.MasterOf(s.master)).StartWorker(t)
		s.workers = append(s.workers, d)
		if n == 0 { // the first one gets the jobs
			harness.AwaitWorkers(t, s.master, "", 1)
			s.Insert(t, 2, "a", "waiting")
			jobctl(t, d, "poll")
			s.AwaitDone(t, 2)
			s.Insert(t, 1, "a", "waiting")
			jobctl(t, d, "poll")
			s.AwaitStatus(t, 1, "running")
			jobctl(t, d, "pause", "a")
		}
	}
	harness.AwaitWorkers(t, s.master, "", workers)
	for _, d := range s.workers[1:] {
		jobctl(t, d, "pause", "a")
	}
	s.Insert(t, 3, "only-1", "manual")
	s.Insert(t, 4, "nobodys", "waiting")
	s.Exec(t, "INSERT INTO jobs (id, target, status, time_created) SELECT n + 9, 'a', 'waiting', UNIX_TIMESTAMP() FROM "+harness.Numbers(waiting))
	return s
}

// sees are the commands that change nothing, each with what must be in its output where it can be
// told at all.
var sees = []struct {
	words string
	says  string // of a worker, and of a master with all its workers
	table bool   // without the table it can't be told
}{
	{"status", "node-1", false},
	{"ps", "1", false},
	{"queue", "a", true},
	{"failed", "it went wrong", false},
	{"failed --group", "it went wrong", false},
	{"show 2", "it went wrong", false},
	{"show 10", "waiting", true},
	{"why 1", "node-1", false},
	{"why 2", "exit code 3", false},
	{"why 10", "paused", true},
	{"why 3", "manual", true},
	{"why 4", "its target nobodys", true},
	{"tail 1", "working", false},
	{"tail 2", "it went wrong", false},
	{"wait 2 --timeout WAITS", "fail", true},
	{"retry --failed --dry-run", "2", true},
}

// look is one of them, run.
type look struct {
	words string
	table bool
	says  string
	ran
	took time.Duration
}

// all runs each of the commands, all at once, as text and as JSON.
func (s *scene) all(t *testing.T, d *harness.Daemon, flags ...string) (looks []look) {
	t.Helper()
	harness.Program(t, "jobctl")
	var mu sync.Mutex
	var running sync.WaitGroup
	for _, see := range sees {
		for _, output := range []string{"table", "json"} {
			if output == "json" && strings.HasPrefix(see.words, "tail") {
				continue // its output is the job's
			}
			running.Go(func() {
				begun := time.Now()
				args := slices.Concat(flags, []string{"--output", output}, strings.Fields(strings.ReplaceAll(see.words, "WAITS", s.waits)))
				l := look{strings.Join(args, " "), see.table, see.says, jobctl(t, d, args...), time.Since(begun)}
				if output == "json" {
					l.says = ""
					if l.code == 0 && !json.Valid([]byte(l.stdout)) {
						t.Errorf("%s prints no JSON: %.200q", l.words, l.stdout)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				looks = append(looks, l)
			})
		}
	}
	running.Wait()
	for _, l := range looks {
		if l.code > 1 && l.code != 5 && l.code != 6 { // the time of wait is over; the table can't be read
			t.Errorf("%s: %+v", l.words, l.ran)
		}
		if strings.Contains(l.stdout+l.stderr, "panic") || strings.Contains(l.stderr, "internal error") {
			t.Errorf("%s: %+v", l.words, l.ran)
		}
	}
	return looks
}

// saysAll fails for each look that does not say what it is to say.
func saysAll(t *testing.T, looks []look, withTable bool) {
	t.Helper()
	for _, l := range looks {
		if (withTable || !l.table) && !strings.Contains(l.stdout+l.stderr, l.says) {
			t.Errorf("%s does not say %q: %+v", l.words, l.says, l.ran)
		}
	}
}

// In each scene an operator first asks, which changes nothing, and then acts.
func TestAnOperatorOfOneWorker(t *testing.T) {
	t.Parallel()
	s := newScene(t, harness.NewDatabase(t), 1, 20)
	looks := s.all(t, s.workers[0])
	saysAll(t, looks, true)
	for _, l := range looks {
		check.Equal(t, (l.code != 0), strings.Contains(l.words, "wait 2"), "%s: %+v", l.words, l.ran)
	}
	s.act(t, s.workers[0])
}

func TestAnOperatorOfAMasterWithThreeWorkers(t *testing.T) {
	t.Parallel()
	s := newScene(t, harness.NewDatabase(t), 3, 20)
	looks := s.all(t, s.master, "--master")
	saysAll(t, looks, true)
	for _, l := range looks {
		if failed := strings.Contains(l.words, "wait 2"); (l.code != 0) != failed || l.code == 0 && l.stderr != "" && !strings.Contains(l.words, "tail") {
			t.Errorf("%s: %+v", l.words, l.ran)
		}
	}
	s.act(t, s.master, "--master")
}

// A worker that hangs is named, and what the others know is told all the same. A retry and a cancel need
// the worker that has the job, and wait for no other one without end.
func TestAnOperatorBesideAWorkerThatHangs(t *testing.T) {
	t.Parallel()
	s := newScene(t, harness.NewDatabase(t), 3, 20)
	s.workers[1].Signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { s.workers[1].Signal(t, syscall.SIGCONT) })
	looks := s.all(t, s.master, "--master")
	saysAll(t, looks, true)
	for _, l := range looks {
		// Where the answer is complete without it, it need not be named: what runs has run elsewhere.
		complete := strings.Contains(l.words, "tail") || strings.Contains(l.words, "wait 2") || strings.Contains(l.words, "retry")
		if !complete && !strings.Contains(l.stdout+l.stderr, "node-2") {
			t.Errorf("%s does not name the worker that hangs: %+v", l.words, l.ran)
		}
	}
	got := jobctl(t, s.master, "--master", "retry", "2")
	check.Contains(t, got.stdout, "waiting", "retry: %+v", got)
	s.AwaitStatus(t, 2, "waiting")
	got = jobctl(t, s.master, "--master", "cancel", "1", "--grace", "1s")
	check.Contains(t, got.stdout, "cancelling", "cancel: %+v", got)
	s.AwaitStatus(t, 1, "done")
}

// With the database away everything that the journals and the workers know is told, and what a worker
// has is cancelled; of all else it is said that it is not.
func TestAnOperatorWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s := newScene(t, harness.NewDatabaseOn(t, server), 2, 20)
	s.waits = "5s" // which run out
	must.Do(t, server.Stop())
	for _, side := range []struct {
		d     *harness.Daemon
		flags []string
	}{{s.workers[0], nil}, {s.master, []string{"--master"}}} {
		looks := s.all(t, side.d, side.flags...)
		saysAll(t, looks, false)
		for _, l := range looks {
			if l.table && l.code == 0 && !strings.Contains(l.words, "queue") {
				t.Errorf("%s can't be told, and is: %+v", l.words, l.ran)
			}
			why := []string{"refused", "connect", "away", "the table can't be read now"}
			if l.table && !slices.ContainsFunc(why, func(word string) bool { return strings.Contains(l.stdout+l.stderr, word) }) {
				t.Errorf("%s does not say why: %+v", l.words, l.ran)
			}
		}
	}
	for _, a := range acts {
		got := jobctl(t, s.master, append([]string{"--master"}, strings.Fields(a.words)...)...)
		if all := got.stdout + got.stderr; !strings.Contains(all, a.away) || (got.code == 0) != (a.away == a.says) {
			t.Errorf("%s: %+v", a.words, got)
		}
	}
}

// acts are the commands that change something, in this order, each with what it says and what its
// row becomes. With the database away only what a worker has by itself can be cancelled.
var acts = []struct {
	words, says, row string
	id               int64
	away             string // what is said without the database
}{
	{"cancel 10", "ignored", "ignored", 10, "job 10"},
	{"cancel 3", "ignored", "ignored", 3, "job 3"},
	{"cancel 4", "ignored", "ignored", 4, "job 4"},
	{"retry 10", "waiting", "waiting", 10, "the table can't be read now"},
	{"retry 2", "waiting", "waiting", 2, "the table can't be read now"},
	{"cancel 1 --grace 1s", "cancelling", "done", 1, "cancelling"},
}

// act carries them all out.
func (s *scene) act(t *testing.T, d *harness.Daemon, flags ...string) {
	t.Helper()
	for _, a := range acts {
		got := jobctl(t, d, append(flags, strings.Fields(a.words)...)...)
		if !strings.Contains(got.stdout, a.says) || strings.Contains(got.stderr, "job ") {
			t.Errorf("%s: %+v", a.words, got)
		}
		s.AwaitStatus(t, a.id, a.row)
	}
}
