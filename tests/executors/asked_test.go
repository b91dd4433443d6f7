package executors

import (
	"fmt"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/tests/harness"
)

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
				if got, want := shown(s.AwaitDone(t, id)), e.want(c.name, c.want); got != want {
					t.Errorf("%s: it ended as %s, not as %s", c.name, got, want)
				}
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
	if state := answer.Jobs[strconv.FormatInt(id, 10)].State; state != "cancelling" {
		t.Errorf("job %d is %q", id, state)
	}
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
	if got, want := shown(s.AwaitDone(t, id)), `ok 0 - "next\n" ""`; got != want {
		t.Errorf("the next job ended as %s, not as %s", got, want)
	}
}
