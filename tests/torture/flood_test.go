package torture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// floodPassword is known to the legitimate clients, and to those who flood from behind it.
const floodPassword = "a word that nobody guesses"

// Clients that send rubbish, say nothing, are slow or guess passwords, while one that knows the password
// asks for the status all the time, and others come in: they are answered, and memory stays bounded.
func TestFloods(t *testing.T) {
	if !long() {
		t.Parallel() // the long form measures them one by one, before all other tests
	}
	cases := []struct {
		name    string
		kind    string
		clients int
		inside  bool
	}{
		{"fuzzed frames", "fuzz", size(8, 16), false},
		{"fuzzed frames behind the password", "fuzz", size(8, 16), true},
		{"idle connections that are closed and come again", "idle", size(500, 10_000), false},
		{"idle connections behind the password", "idle", size(1000, 10_000), true},
		{"slow connections", "slow", size(100, 1000), false},
		{"slow connections behind the password", "slow", size(100, 1000), true},
		{"wrong passwords", "guess", size(8, 16), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, "", map[string]int{"a": 1}, harness.Settings{"password": floodPassword, "log_level_console": "error"})
			worker, _ := s.start(t)
			task := flood{Kind: c.kind, Clients: c.clients, Addr: worker.Addr}
			if c.inside {
				task.Password = floodPassword
			}
			flooder := startFlooder(t, task)
			seen := ask(t, worker.Addr, size(2*time.Second, time.Minute))
			made := flooder.stop(t)
			checkAnswers(t, seen)
			checkStanding(t, s, worker)
			suite.matrix.add(line{
				fault: "12 " + c.name, runs: c.clients, tally: s.known(t),
				note: fmt.Sprintf("%s; %s; memory at most %d MiB", seen, made, harness.MemoryPeak(t, worker.Pid)>>20),
			})
		})
	}
}

// Connections that send a few frames each, nearly right ones, outside and behind the password, for ten minutes in
// the long form: the worker stands it, and its memory does not grow.
func TestFuzzedFramesForLong(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", floodPassword} {
		t.Run(fmt.Sprintf("inside=%t", password != ""), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "", map[string]int{"a": 1}, harness.Settings{"password": floodPassword, "log_level_console": "error"})
			worker, _ := s.start(t)
			task := flood{Kind: "brief", Clients: 8, Addr: worker.Addr, Password: password, Seed: rand.Uint64()}
			flooder := startFlooder(t, task)
			<-time.After(size(2*time.Second, 10*time.Minute)) // that is how long it lasts
			made := flooder.stop(t)
			checkStanding(t, s, worker)
			suite.matrix.add(line{
				fault: fmt.Sprintf("12 fuzzed frames, behind the password: %t, connection after connection", password != ""), runs: task.Clients, tally: s.known(t),
				note: fmt.Sprintf("%s; memory at most %d MiB", made, harness.MemoryPeak(t, worker.Pid)>>20),
			})
			if t.Failed() {
				t.Logf("the seed was %d", task.Seed)
			}
		})
	}
}

// checkStanding checks that a worker lives, has not taken too much memory, and runs jobs.
func checkStanding(t *testing.T, s *site, worker *harness.Daemon) {
	t.Helper()
	if !worker.Running() || strings.Contains(worker.Output(), "panic") {
		t.Fatalf("the worker did not stand it:\n%s", worker.Output())
	}
	const most = 200 << 20
	if peak := harness.MemoryPeak(t, worker.Pid); peak > most {
		t.Errorf("%d MiB of memory", peak>>20)
	}
	s.insert(t, 4, "a")
	client := harness.Dial(t, worker.Addr)
	client.Authorise(t, floodPassword)
	client.Ask(t, "continue", nil)
	client.Ask(t, "poll", nil)
	s.awaitDone(t)
}

// checkAnswers checks what is promised: an answer within 100 ms, 99 times of 100. It is measured where
// nothing else is at the same time.
func checkAnswers(t *testing.T, seen answers) {
	t.Helper()
	const most = 100 * time.Millisecond
	if slowest := max(late(seen.known), late(seen.fresh)); long() && slowest > most {
		t.Errorf("clients are answered after %s: %s", slowest, seen)
	}
}

// answers are the times that answers took, in order of time taken.
type answers struct {
	known []time.Duration // on one connection
	fresh []time.Duration // on new connections, from the first packet to the last
}

func (a answers) String() string {
	rounded := func(times []time.Duration) time.Duration { return late(times).Round(100 * time.Microsecond) }
	return fmt.Sprintf("%d answers, p99 %s; on new connections %d, p99 %s", len(a.known), rounded(a.known), len(a.fresh), rounded(a.fresh))
}

// late is what 99 of 100 do not exceed.
func late(times []time.Duration) time.Duration { return times[len(times)*99/100] }

// ask asks for a while, as one client that stays and others that come and go.
func ask(t *testing.T, addr string, duration time.Duration) (seen answers) {
	t.Helper()
	resident := harness.Dial(t, addr)
	resident.Authorise(t, floodPassword)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for i, end := 0, time.Now().Add(duration); time.Now().Before(end); i++ {
		begun := time.Now()
		if response := resident.Ask(t, "status", nil); response.Error != "" {
			t.Fatalf("a legitimate client is refused: %s", response.Error)
		}
		seen.known = append(seen.known, time.Since(begun))
		if i%10 == 0 {
			begun = time.Now()
			visitor := harness.Dial(t, addr)
			visitor.Authorise(t, floodPassword)
			seen.fresh = append(seen.fresh, time.Since(begun))
			visitor.Close()
		}
		<-pause.C
	}
	slices.Sort(seen.known)
	slices.Sort(seen.fresh)
	return seen
}

// running is a flooder at work.
type running struct {
	command *exec.Cmd
	stdin   io.Closer
	stdout  *bufio.Scanner
}

// startFlooder starts a flooder, with the lowest priority, and waits until each of its clients has come.
func startFlooder(t *testing.T, task flood) *running {
	t.Helper()
	encoded := must.Get(json.Marshal(task))(t)
	command := exec.Command("nice", "-n", "19", os.Args[0])
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%s", floodVariable, encoded))
	command.Stderr = os.Stderr
	stdin := must.Get(command.StdinPipe())(t)
	stdout := must.Get(command.StdoutPipe())(t)
	must.Do(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill() }) // it has ended, unless the test failed
	r := &running{command: command, stdin: stdin, stdout: bufio.NewScanner(stdout)}
	if !r.stdout.Scan() {
		t.Fatalf("the flooder ended: %v", command.Wait())
	}
	return r
}

// stop ends the flooder, and tells what it did.
func (r *running) stop(t *testing.T) string {
	t.Helper()
	r.stdin.Close()
	var connections, frames int
	for r.stdout.Scan() {
		_, _ = fmt.Sscan(r.stdout.Text(), &connections, &frames) // the last line
	}
	if err := r.command.Wait(); err != nil {
		t.Fatalf("the flooder: %v", err)
	}
	if connections == 0 {
		t.Fatal("the flooder connected to nobody")
	}
	return fmt.Sprintf("%d connections and %d frames came", connections, frames)
}
