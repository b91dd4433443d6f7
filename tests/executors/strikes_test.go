package executors

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// long tells the long form from the short one.
func long() bool { return os.Getenv("TORTURE") == "long" }

// times is how often something is done.
func times(short, inLong int) int {
	if long() {
		return inLong
	}
	return short
}

// points are those at which the worker kills itself, see cmd/jobd/failpoints.go, that are reached
// for certain while each executor is given some jobs.
var points = []string{
	"accepted-appended", "commit-sent", "commit-answered", "running-appended", "start-asking", "start-asked", "started",
	"started-appended", "request-asking", "request-held", "request-proceeding", "request-proceeded", "exit-seen", "done-appended",
	"forgotten", "update-sent", "done-mirrored",
}

// The worker is killed at each step of a job, one after the other, while all executors have some.
// Nothing is started twice, nothing is lost, and only of requests some outcomes are unknown.
func TestTheWorkerIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	const slots, more = 2, 4
	armed := harness.Armed(t)
	l := &load{site: newSite(t, slots)}
	l.config = l.settings.Write(t)
	kills := 0
	for range times(1, 20) {
		for _, point := range points {
			l.insertMore(more)
			harness.Arm(t, l.settings["journal_dir"], point, 1+rand.IntN(2))
			if worker := harness.LaunchBinary(t, armed, l.config, l.settings.Addr()); worker.ExitCode(t) != -1 {
				t.Fatalf("it was not killed at %s, but ended by itself", point)
			}
			kills++
		}
	}
	harness.Disarm(t, l.settings["journal_dir"])
	l.start()
	l.audit(theWorker, kills*slots)
}

// The runner is killed at any moment, again and again.
func TestTheRunnerIsKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	const slots, more = 2, 4
	l := &load{site: newSite(t, slots)}
	l.start()
	kills := times(6, 200)
	for range kills {
		l.insertMore(more)
		l.poke()
		<-time.After(rand.N(300 * time.Millisecond))
		if runner := harness.RunnerOf(l.settings["journal_dir"]); runner != 0 { // else there is none at the moment
			_ = syscall.Kill(runner, syscall.SIGKILL)
		}
	}
	l.audit(theRunner, kills*slots)
}
