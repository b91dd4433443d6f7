package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	jobexec "jobd/exec"
	"jobd/exec/runner"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/tests/harness"
)

// spawnCost is a worker whose jobs are children of its own, in turn with one that has a runner: both in this
// process, and otherwise alike.
func spawnCost(p *program) []reading {
	const jobs = 3000
	children := newInside(p, func(string) (starter, error) {
		return ownChildren{}, nil
	})
	remote := newInside(p, func(dir string) (starter, error) {
		return runner.Open(runner.Config{Dir: dir, Path: harness.Program(p, "jobd"), Command: []string{"jobd", "runner"}, Logger: quiet})
	})
	return []reading{paired(3,
		func() float64 { return children.site.drainRate(jobs, "a", children.worker.PollAll) },
		func() float64 { return remote.site.drainRate(jobs, "a", remote.worker.PollAll) },
	)}
}

var quiet = slog.New(slog.DiscardHandler)

// starter starts jobs, and remembers them for the worker.
type starter interface {
	jobexec.Runner
	jobexec.Keeper
	io.Closer
}

// inside is a worker in this process, with a journal, a mirror and a table.
type inside struct {
	site   *site
	worker *jobexec.Worker
}

func newInside(p *program, makeStarter func(dir string) (starter, error)) *inside {
	s, dir := newSite(p), p.TempDir()
	j, err := eventlog.Open(p.Context(), eventlog.Config{Dir: dir})
	p.must(err)
	reserve, err := eventlog.OpenReserve(dir, 64<<20)
	p.must(err)
	starts, err := makeStarter(dir)
	p.must(err)
	p.Cleanup(func() { p.must(errors.Join(starts.Close(), reserve.Close(), j.Close())) })
	table := s.table()
	i := &inside{site: s}
	m := store.NewMirror(store.Config{Source: j, Bookmark: j, Table: table.Table, Logger: quiet, OnReturn: func() { i.worker.PollAll() }})
	i.worker = jobexec.New(jobexec.Config{
		Name: "inside", Targets: map[string]int{"a": concurrency}, Launcher: jobexec.Launcher{Words: []string{noop, "{id}"}, Env: os.Environ()},
		MaxOutput: keptOutput, FetchLimit: 100, Prefetch: -1, MaxAttempts: 1, Recorder: j, Table: table.Table, Mirror: m,
		Runner: starts, Keeper: starts, Disk: reserve, Logger: quiet,
		Retry: func(what string, about ...any) jobexec.Retry { return store.NewRetry(quiet, what, about...) }, OnTargets: func() {},
	})
	p.must(i.worker.Open(os.Getpid()))
	p.Cleanup(i.begin(p, m))
	return i
}

// begin runs worker and mirror until end is called.
func (i *inside) begin(p *program, m *store.Mirror) (end func()) {
	working, stop := context.WithCancel(context.Background())
	mirroring, stopMirror := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- i.worker.Run(working) }()
	go func() { ended <- m.Run(mirroring) }()
	return func() {
		stop()
		err := <-ended
		stopMirror()
		if err = errors.Join(err, <-ended); err != nil {
			p.Logf("stop the worker: %v", err)
		}
	}
}
