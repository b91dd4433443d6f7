package exec_test

import (
	"context"
	"errors"
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
		c.Retry = func(what string) jobexec.Retry { return &outage{of: told, what: what} }
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
