package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	jobdaemon "jobd/cmd/internal/daemon"
	jobexec "jobd/exec"
)

// tellManager is the actor that says to the service manager how the worker stands.
func (r *root) tellManager(words func() string) jobdaemon.Actor {
	return func(ctx context.Context) error { return r.manager.Run(ctx, words) }
}

// describe is in a line how the worker stands: what it does, and what keeps it from more.
func (d *daemon) describe() string {
	worker := d.worker.Status()
	said := []string{workInWords(worker.Targets)}
	trouble := func(what string, since time.Time, why string) {
		said = append(said, fmt.Sprintf("%s since %s: %s", what, since.Local().Format(time.DateTime), why))
	}
	if database := d.reached(worker); !database.Reachable {
		trouble("the database is away", database.Since, database.Error)
	}
	if runner := d.runnerStanding(); !runner.Reachable {
		trouble("the runner is away", runner.Since, runner.Error)
	}
	if full := d.full(worker); full.Error != "" {
		trouble("the journal takes nothing new", full.Since, full.Error)
	}
	if broken := worker.Launcher; broken != nil {
		trouble("no job can be started", broken.Since, broken.Broken)
	}
	for _, p := range worker.Executors.Pools {
		switch since := time.UnixMilli(p.Since); {
		case p.Unready != "":
			trouble("no job of target "+p.Target+" can be started", since, p.Unready)
		case p.Failing != "":
			trouble("no new process for target "+p.Target+" gets ready", since, p.Failing)
		}
	}
	for _, s := range worker.Executors.Services {
		if s.Unready != "" {
			trouble("no job of target "+s.Target+" can be started", time.UnixMilli(s.Since), s.Unready)
		}
	}
	for _, agent := range d.agents {
		if master := agent.Status(); !master.Registered {
			said = append(said, "not registered with the master "+master.Address)
		}
	}
	return d.reading.Words(strings.Join(said, "; "))
}

// workInWords is what the targets do.
func workInWords(targets map[string]jobexec.TargetStatus) string {
	running, prefetched, paused := 0, 0, 0
	for _, t := range targets {
		running += t.Running
		prefetched += t.Prefetched
		if t.Paused {
			paused++
		}
	}
	words := fmt.Sprintf("targets: %d, running: %d, claimed: %d", len(targets), running, prefetched)
	if paused > 0 {
		words += fmt.Sprintf(", paused: %d", paused)
	}
	return words
}
