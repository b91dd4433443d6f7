package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

// outages notes what has failed and what has succeeded again.
type outages struct {
	mu   sync.Mutex
	over map[string]int
}

type outage struct {
	of     *outages
	what   string
	failed bool
}

func (o *outage) Wait(ctx context.Context, cause error) error {
	o.failed = true
	return patience{}.Wait(ctx, cause)
}

func (o *outage) Over() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	if o.failed {
		o.of.over[o.what]++
	}
	o.failed = false
}

// Of a start that is tried again the log says whose it is: there may be thousands at a time.
func TestAStartThatIsTriedAgainIsNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(7, "a")), nil)
	said := make(chan string, 10)
	f.build(func(c *jobexec.Config) {
		c.Retry = func(what string, about ...any) jobexec.Retry {
			said <- fmt.Sprint(append([]any{what}, about...))
			return patience{}
		}
	})
	f.runner.once = &jobexec.NotStartedError{Why: "start /bin/true: resource temporarily unavailable", Short: true}
	f.start()
	f.next().exit(0)
	f.wait("the job is done", func(s *journal.State) bool { return s.Seq > 4 && len(s.Jobs) == 0 })
	for what := range said {
		if what, named := strings.CutPrefix(what, "[start a job"); named {
			if what != " job 7 target a]" {
				t.Errorf("said of the start: %s", what)
			}
			return
		}
	}
}

// Each outage is told to be over, where what had failed succeeds.
func TestTheEndsOfOutagesAreTold(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"))
	failures := 0
	tab.commit = func(apply func()) error {
		if failures++; failures == 1 {
			return awayError{errors.New("link lost")}
		}
		apply()
		return nil
	}
	f := newFixture(t, tab, nil)
	told := &outages{over: make(map[string]int)}
	f.build(func(c *jobexec.Config) {
		c.Retry = func(what string, _ ...any) jobexec.Retry { return &outage{of: told, what: what} }
	})
	f.start()
	f.next().exit(0)
	f.wait("the job is done", func(s *journal.State) bool { return s.Seq > 4 && len(s.Jobs) == 0 })
	told.mu.Lock()
	defer told.mu.Unlock()
	if told.over["claim jobs"] != 1 {
		t.Errorf("told to be over: %v, want claims, once", told.over)
	}
}
