package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/tests/harness"
)

// canceller cancels jobs as jobctl does, and keeps what it was told of each.
type canceller struct {
	addr   string // of a worker, or of a master
	master bool

	mu       sync.Mutex
	told     map[int]map[string]bool // ignored, cancelling, done, or refused
	nothing  int                     // cancels of which nobody said anything
	requests int
}

func newCanceller(addr string, master bool) *canceller {
	return &canceller{addr: addr, master: master, told: map[int]map[string]bool{}}
}

// cancelAnswer is a worker's answer to cancel.
type cancelAnswer struct {
	Jobs      map[string]struct{ State string }
	Errors    map[string]string
	Elsewhere map[string]json.RawMessage
}

// ask sends a request over a connection of its own. It is false where that ends before the answer,
// because somebody was killed.
func (c *canceller) ask(data map[string]any, into any) bool {
	conn, err := net.DialTimeout("tcp", c.addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	frame, _ := json.Marshal([]any{0, map[string]any{"no": 1, "type": "cancel", "data": data}})
	if _, err := conn.Write(append(frame, harness.EOT)); err != nil {
		return false
	}
	for decoder := []byte{}; ; {
		part := make([]byte, 1<<16)
		n, err := conn.Read(part)
		decoder = append(decoder, part[:n]...)
		if answer, _, whole := strings.Cut(string(decoder), string(rune(harness.EOT))); whole {
			var kind int
			var response harness.Response
			parts := []any{&kind, &response}
			return json.Unmarshal([]byte(answer), &parts) == nil && response.Error == "" && json.Unmarshal(response.Data, into) == nil
		}
		if err != nil {
			return false
		}
	}
}

// cancel cancels a job: whoever has it does, or one worker, where nobody has. A claim at the same
// moment is met once more.
func (c *canceller) cancel(id int) {
	const rounds = 20
	for range rounds {
		data := map[string]any{"ids": []int{id}, "grace": 300, "rows": !c.master}
		answers, workers, ok := c.all(data)
		if !ok {
			break
		}
		if c.note(id, answers) {
			return
		}
		if c.master && len(workers) > 0 {
			data["rows"], data["worker"] = true, workers[rand.N(len(workers))]
			if answers, _, ok = c.all(data); ok && c.note(id, answers) {
				return
			}
		}
		<-atRandom(5 * time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nothing++
}

// all gives the answers of all that were asked.
func (c *canceller) all(data map[string]any) (answers []cancelAnswer, workers []string, ok bool) {
	if !c.master {
		answers = make([]cancelAnswer, 1)
		return answers, nil, c.ask(data, &answers[0])
	}
	var relayed struct {
		Workers []struct {
			Address string
			Data    cancelAnswer
		}
	}
	ok = c.ask(data, &relayed)
	for _, w := range relayed.Workers {
		answers, workers = append(answers, w.Data), append(workers, w.Address)
	}
	return answers, workers, ok
}

// note notes what was said of a job. It is false where nobody said anything for certain.
func (c *canceller) note(id int, answers []cancelAnswer) (said bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	key := strconv.Itoa(id)
	for _, a := range answers {
		word := a.Jobs[key].State
		if a.Errors[key] != "" {
			word = "refused"
		}
		if word == "" {
			continue
		}
		if c.told[id] == nil {
			c.told[id] = map[string]bool{}
		}
		c.told[id][word], said = true, true
	}
	return said
}

// during cancels random jobs of a site, in some at once, until stop is called.
func (c *canceller) during(s *site, atOnce int) (stop func()) {
	var all sync.WaitGroup
	ended := make(chan struct{})
	for range atOnce {
		all.Go(func() {
			for {
				c.cancel(s.someJob())
				select {
				case <-ended:
					return
				case <-atRandom(20 * time.Millisecond):
				}
			}
		})
	}
	return func() {
		close(ended)
		all.Wait()
	}
}

// someJob is any job, or, every other time, one that a worker has just then.
func (s *site) someJob() (id int) {
	if rand.N(2) == 0 && s.Admin.QueryRow("SELECT id FROM jobs WHERE status IN ('accepted', 'running') ORDER BY RAND() LIMIT 1").Scan(&id) == nil {
		return id
	}
	return 1 + rand.N(s.jobs)
}

// awaitEnd waits until each row is done or ignored; as long as there are more and more of them it
// has patience.
func (s *site) awaitEnd(t *testing.T) {
	t.Helper()
	for before := -1; ; {
		ended := s.Count(t, "status IN ('done', 'ignored')")
		if ended == s.jobs {
			return
		}
		if ended == before {
			t.Fatalf("no progress for %s: %d of %d jobs are at their end; the others:\n%s", patience, ended, s.jobs, s.undone(t))
		}
		before = ended
		await(func() bool { return s.Count(t, "status IN ('done', 'ignored')") > before })
	}
}

// marked tells whether a row says that its job was cancelled.
func (o outcome) marked() bool { return strings.Contains(o.stderr, "[jobd: cancelled by 127.0.0.1") }

// auditCancelled compares table, oracle, journals and answers when all is over: what was told is so,
// what is ignored has never run, nothing ran twice, and nothing hangs.
func (s *site) auditCancelled(t *testing.T, c *canceller, journals ...string) (found tally, ignored, ended int) {
	t.Helper()
	seen, found := s.oracle.read(t), tally{jobs: s.jobs}
	ran := map[int]int{}
	for a, pids := range seen.starts {
		ran[a.job] += len(pids)
		if len(pids) > 1 {
			found.doubled++
			t.Errorf("job %d was started %d times in attempt %d", a.job, len(pids), a.number)
		}
	}
	for _, o := range s.outcomes(t) {
		told := c.told[o.id]
		switch {
		case o.status == "ignored":
			ignored++
			if ran[o.id] > 0 || !o.marked() || o.started != 0 || told["cancelling"] || told["done"] {
				t.Errorf("job %d is ignored, was started %d times, told %v, stderr %q", o.id, ran[o.id], told, o.stderr)
			}
		case o.status != "done":
			found.lost++
			t.Errorf("job %d is %s at the end", o.id, o.status)
		case told["ignored"]:
			t.Errorf("job %d is done, and it was told that it is ignored", o.id)
		case o.marked():
			ended++
			check.Equal(t, o.result, "fail", "job %d was cancelled while it ran, and ended as", o.id)
		case told["cancelling"] || told["done"]:
			t.Errorf("job %d: told %v, and its row says nothing of it: %q", o.id, told, o.stderr)
		case o.unknown():
			found.unknown++
		case o.wrong() != "":
			t.Errorf("job %d: %s", o.id, o.wrong())
		}
	}
	for _, dir := range journals {
		checkJournal(t, dir, seen)
	}
	return found, ignored, ended
}

// Cancels race claims and starts of two workers behind a master: each job is never started and
// ignored, or started and signalled.
func TestCancelsRaceStarts(t *testing.T) {
	t.Parallel()
	s := newSite(t, `sleep 0.1`, map[string]int{"a": 4})
	master := harness.StartMaster(t)
	s.settings = s.settings.With(harness.MasterOf(master))
	other := s.worker(t, "other").With(harness.Targets(map[string]int{"a": 4}), harness.MasterOf(master))
	s.start(t)
	other.StartWorker(t)
	harness.AwaitWorkers(t, master, "", 2)
	c := newCanceller(master.Addr, true)
	for range size(4, 40) {
		s.insert(t, 100, "a")
		stop := c.during(s, 4)
		s.poke(t, master)
		await(func() bool { return s.Count(t, "status IN ('waiting', 'accepted')") == 0 })
		stop()
	}
	s.awaitEnd(t)
	found, ignored, ended := s.auditCancelled(t, c, s.settings["journal_dir"], other["journal_dir"])
	if c.nothing > 0 {
		t.Errorf("%d cancels were told nothing", c.nothing)
	}
	if ignored == 0 || ended == 0 {
		t.Errorf("%d jobs were ignored, %d ended: there was no race", ignored, ended)
	}
	suite.matrix.add(line{fault: "12 cancels race starts", runs: c.requests, tally: found, note: fmt.Sprintf("%d ignored, %d signalled", ignored, ended)})
}

// poke has the workers look for what was inserted.
func (s *site) poke(t *testing.T, master *harness.Daemon) {
	t.Helper()
	client := harness.Dial(t, master.Addr)
	defer client.Close()
	client.Ask(t, "poke", map[string]any{"targets": []string{"a"}})
}

// The same while the worker is killed over and over, every other time with its runner: a wish that
// was told is carried out by whoever comes next, and nothing that was cancelled is run again.
func TestCancelsAndKills(t *testing.T) {
	t.Parallel()
	s := newSite(t, `trap '' TERM; sleep 0.05; sleep 0.05`, map[string]int{"a": 8}, harness.Settings{"on_crash": "requeue"})
	s.insert(t, size(300, 5_000), "a")
	c := newCanceller(s.settings.Addr(), false)
	stop := c.during(s, 3)
	kills := size(8, 100)
	for n := range kills {
		worker, _ := s.start(t)
		<-atRandom(size(400*time.Millisecond, time.Second))
		if n%2 == 0 {
			worker.Kill(t)
		} else {
			s.killBoth(t, worker)
		}
	}
	s.start(t)
	await(func() bool { return s.Count(t, "status IN ('waiting', 'accepted')") == 0 })
	stop()
	s.awaitEnd(t)
	found, ignored, ended := s.auditCancelled(t, c, s.settings["journal_dir"])
	suite.matrix.add(line{fault: "12 cancels, worker and runner killed", runs: kills, tally: found, note: fmt.Sprintf("%d ignored, %d signalled", ignored, ended)})
}
