package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"jobd/net/api"
)

// queryTimeout is how long a daemon may take for an answer, where no --timeout says how long the
// whole run may take.
const queryTimeout = 10 * time.Second

// errSilent says that no answer came in time.
var errSilent = errors.New("no answer")

// patienceWith is how long the answer to a request may take. Some are answered when jobs have
// ended, or the worker has started again; pause waits itself for up to 10 s, for starts under way.
func (c *client) patienceWith(typ string) time.Duration {
	switch typ {
	case api.RunManual.Name, api.Restart.Name:
		return 0
	case api.Pause.Name:
		return c.patience * 3 / 2
	case api.Retry.Name, api.Cancel.Name:
		// They wait for rows that somebody holds, and for a database that is away. A master waits
		// 30 s for the worker that it asks, and then says so.
		if c.master {
			return c.patience * 4
		}
		return c.patience * 3
	}
	return c.patience
}

// patience is how long each answer may take; 0: the whole run has a limit, or none was wanted.
func (p *program) patience() time.Duration {
	switch {
	case p.set.Given("timeout"):
		return 0
	case p.surroundings.patience > 0:
		return p.surroundings.patience
	}
	return queryTimeout
}

// within gives a request its time.
func (c *client) within(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	if patience == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, patience, errSilent)
}

// diagnose finds out, when some of the time for an answer has gone by, who is silent: the daemon,
// or workers behind a master, which takes 5 s to say so of one. What it found, as the end of a
// sentence, is there when the time is up.
func (c *client) diagnose(ctx context.Context, patience time.Duration) <-chan string {
	found := make(chan string, 1)
	go func() {
		if patience == 0 {
			<-ctx.Done()
		}
		select {
		case <-time.After(patience * 3 / 10):
			found <- c.silent(context.WithoutCancel(ctx), patience*7/10)
		case <-ctx.Done():
			found <- ""
		}
	}()
	return found
}

// silent says who is, so far as that is known after a while.
func (c *client) silent(ctx context.Context, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pinging, cancel := context.WithTimeout(ctx, patience*4/5)
	defer cancel()
	if c.link.Ping(pinging) != nil {
		return "; it does not answer a ping either: it hangs, is stopped, or is out of reach"
	}
	if !c.master {
		return "; it does answer a ping"
	}
	answer, err := c.link.Request(ctx, api.MasterStatus.Name, api.Polling{Workers: true})
	var status masterStatus
	if err != nil || json.Unmarshal(answer, &status) != nil {
		return "; the master does answer a ping: workers may hang"
	}
	var text strings.Builder
	for _, failed := range silentWorkers(status) {
		fmt.Fprintf(&text, "; %v", failed)
	}
	return text.String()
}

// silentWorkers names the workers that did not answer their master.
func silentWorkers(s masterStatus) []error {
	var failed []error
	for _, worker := range s.Workers {
		if worker.StatusError != "" {
			failed = append(failed, fmt.Errorf("worker '%s': %s", clean(worker.Name), clean(worker.StatusError)))
		}
	}
	return failed
}
