package torture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// polling makes a worker look for jobs by itself, so that a test needs no clients.
var polling = harness.Settings{"poll_interval": "200ms"}

// The link is cut, and stays cut for a while, under load: refused at once, or swallowed.
func TestLinkAwayUnderLoad(t *testing.T) {
	t.Parallel()
	for _, swallowed := range []bool{false, true} {
		t.Run(fmt.Sprintf("swallowed=%t", swallowed), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "", map[string]int{"a": 4}, polling)
			link := newLink(t, s)
			s.settings = s.settings.With(link.settings())
			jobs := size(400, 4000)
			s.insert(t, jobs, "a")
			s.start(t)
			awaitProgress(t, s, jobs/4)
			if swallowed {
				link.poison(t, "timeout", `"timeout": 0`)
			} else {
				link.Stop()
			}
			<-time.After(size(3*time.Second, time.Minute)) // that is how long it is away
			before, begun := s.Count(t, "status = 'done'"), time.Now()
			if swallowed {
				link.heal(t)
				link.Stop() // what hangs in it is lost
			}
			link.up(t)
			awaitProgress(t, s, before+1)
			back := time.Since(begun)
			s.awaitDone(t)
			suite.matrix.add(line{
				fault: fmt.Sprintf("4 link away under load, swallowed: %t", swallowed), runs: 1, tally: s.known(t),
				note: fmt.Sprintf("goes on %s after", back.Round(time.Millisecond)),
			})
		})
	}
}

// awaitProgress waits until n jobs are done.
func awaitProgress(t *testing.T, s *site, n int) {
	t.Helper()
	n = min(n, s.jobs)
	if !await(func() bool { return s.Count(t, "status = 'done'") >= n }) {
		t.Fatalf("only %d jobs are done, not %d:\n%s", s.Count(t, "status = 'done'"), n, s.undone(t))
	}
}

// known is the audit of a site none of whose processes was killed: all outcomes are known.
func (s *site) known(t *testing.T, journals ...string) tally {
	t.Helper()
	found := s.audit(t, journals...)
	if found.unknown > 0 {
		t.Errorf("%d outcomes are unknown, though no process was killed", found.unknown)
	}
	return found
}

// Links break around the bytes of a COMMIT, of a claim or of the mirror, many times.
func TestLinkCutAtCommits(t *testing.T) {
	t.Parallel()
	s := newSite(t, "", map[string]int{"a": 4}, polling)
	proxy := must.Get(linkproxy.Start(s.Addr))(t)
	t.Cleanup(func() { proxy.Close() })
	s.settings["mysql_port"] = strconv.Itoa(proxy.Port())
	s.start(t)
	cuts := size(20, 500)
	for range cuts {
		fault := linkproxy.Fault(rand.IntN(3))
		broken := proxy.Break("; COMMIT", fault)
		s.insert(t, 3, "a")
		select {
		case <-broken.Done:
		case <-time.After(patience):
			t.Fatalf("no COMMIT was sent for %s:\n%s", patience, s.undone(t))
		}
		if fault == linkproxy.Held {
			<-atRandom(200 * time.Millisecond)
			broken.Release()
		}
		s.awaitDone(t) // else retries would wait longer and longer
	}
	suite.matrix.add(line{fault: "4 link cut at a COMMIT", runs: cuts, tally: s.known(t)})
}

// A worker's link swallows everything in the middle of a claim, with rows locked. Another worker gets
// them when the server gives up on the first, after 30 s.
func TestLinkSwallowedInTheMiddleOfAClaim(t *testing.T) {
	t.Parallel()
	s := newSite(t, "", map[string]int{"a": 4}, polling)
	link := newLink(t, s)
	s.settings = s.settings.With(link.settings())
	link.poison(t, "latency", `"latency": 500`)
	s.insert(t, 8, "a")
	s.start(t)
	// In the middle: somebody holds rows that still read as waiting.
	if !await(func() bool {
		return s.Count(t, "status = 'waiting' FOR UPDATE SKIP LOCKED") < s.Count(t, "status = 'waiting'")
	}) {
		t.Fatal("the worker claims nothing")
	}
	link.poison(t, "timeout", `"timeout": 0`)

	begun := time.Now()
	other := s.worker(t, "other").With(harness.Targets(map[string]int{"a": 4}), polling)
	other.StartWorker(t)
	s.awaitDone(t)
	took := time.Since(begun)
	link.heal(t)
	link.Stop()
	link.up(t)
	s.insert(t, 4, "a")
	s.awaitDone(t)
	suite.matrix.add(line{
		fault: "4 link swallowed in a claim", runs: 1, tally: s.known(t, s.settings["journal_dir"], other["journal_dir"]),
		note: fmt.Sprintf("the other worker waited %s", took.Round(time.Second)),
	})
}

// A slow link with jitter slows down, and nothing else: descriptors and goroutines stay as many.
func TestLinkSlow(t *testing.T) {
	t.Parallel()
	s := newSite(t, "", map[string]int{"a": 16}, polling)
	link := newLink(t, s)
	s.settings = s.settings.With(link.settings())
	link.poison(t, "latency", size(`"latency": 150, "jitter": 150`, `"latency": 2000, "jitter": 1500`))
	worker, _ := s.start(t)
	s.insert(t, 40, "a")
	for range 3 { // there are some three dozen round trips before the first claim, in the long form of four seconds each
		await(func() bool { return s.Count(t, "status = 'done'") > 0 })
	}
	s.awaitDone(t)
	early := descriptors(t, worker.Pid)
	for end := time.Now().Add(size(5*time.Second, 5*time.Minute)); time.Now().Before(end); {
		s.insert(t, 40, "a")
		s.awaitDone(t)
	}
	late := descriptors(t, worker.Pid)
	if late > early+8 {
		t.Errorf("%d descriptors became %d", early, late)
	}
	found := s.known(t)
	worker.Signal(t, syscall.SIGQUIT) // it dies with a list of its goroutines
	worker.ExitCode(t)
	goroutines := strings.Count(worker.Output(), "\ngoroutine ")
	if goroutines == 0 || goroutines > 80 {
		t.Errorf("%d goroutines at rest", goroutines)
	}
	suite.matrix.add(line{
		fault: "4 slow link with jitter", runs: 1, tally: found,
		note: fmt.Sprintf("descriptors %d, then %d; goroutines %d", early, late, goroutines),
	})
}

// descriptors counts what a process has open.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	open := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	return len(open)
}
