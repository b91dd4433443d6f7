package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/gearman"
	"jobd/cmd/internal/refusals"
	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/api"
)

// reloader takes over what may change while jobd runs: targets, their concurrency and the terms of
// their jobs, launchers, and how runs are planned.
type reloader struct {
	args, environ []string
	log           logger
	worker        *jobexec.Worker
	refusals      *refusals.Requests
	changed       func()         // tells the masters
	front         *gearman.Front // nil: there is none
	current       config         // that was read last
	inForce       map[string]jobexec.Terms
	started       config // that the worker was started with
}

// Who the journal names: for a reload by a signal, and for changes that the file made.
const (
	bySignal = "SIGHUP"
	byReload = "configuration file"
)

// takeOver reads the configuration again, and takes it over. One with a mistake changes nothing,
// nor does one whose taking over can't be journalled.
//
// The order: everything that may be refused is asked first, the table too, and changes nothing.
// Then reloaded is appended, then what it says takes effect; a crash between the two starts the
// worker with this very file. What fails after the append (the disk filled up meanwhile, or the
// table that did not answer then refuses a target now) is in the log, and the events of each target
// say what became of it.
func (r *reloader) takeOver(by string) (settings jobdaemon.Settings, told api.Reloaded, err error) {
	config, err := parseConfig(r.args, r.environ, io.Discard)
	if err == nil {
		err = config.checkLaunchers()
	}
	if err == nil {
		err = r.worker.CheckTargets(config.targets)
	}
	if err != nil {
		// The reason goes to the log only: it may quote a line of the file, and passwords have no
		// place in a history.
		r.refusals.Note(journal.Refused{
			Request: api.Reload.Name, About: r.current.Path, By: by,
			Reason: "the configuration can't be taken over; the worker's log says why",
		})
		return config.Settings, told, err
	}
	event := r.reloaded(config, by)
	if err := r.worker.Note(event); err != nil {
		return config.Settings, told, fmt.Errorf("it can't be journalled: %w", err)
	}
	r.inForce = r.terms(config, r.worker.TargetNames())
	r.worker.SetTerms(config.launcher.launcher(), r.inForce, config.time.location, config.time.skipMissed) // before a new target has jobs
	found := map[string]*jobexec.Launcher(nil)
	if r.front != nil {
		found = r.front.Reload(config.targets)
		r.worker.SetFound(found)
	}
	if err := r.worker.SetTargets(config.targets, byReload); err != nil {
		r.log.Error("targets could not be applied", "error", err)
	}
	if r.front != nil {
		r.front.Reloaded(found, byReload)
	}
	r.changed()
	r.current = config
	return config.Settings, api.Reloaded{
		File: config.Path, Changed: event.Changed, Later: r.later(config), Warnings: config.Settings.Warnings,
	}, nil
}

// terms are those of the new configuration. Jobs of a target that it has no more, and that is served
// until they are through, keep theirs.
func (r *reloader) terms(config config, served []string) map[string]jobexec.Terms {
	terms := config.terms(r.started.time.uses)
	for _, name := range served {
		former, had := r.inForce[name]
		if _, stays := config.targets[name]; had && !stays {
			terms[name] = former
		}
	}
	return terms
}

// later gives the keys that differ from those that the worker was started with, and count from its
// next start on; the log has them too.
func (r *reloader) later(config config) []string {
	later := slices.DeleteFunc(config.read.Changed(r.started.read), config.read.IsLive)
	if len(later) > 0 {
		r.log.Warn("some keys that were changed take effect at the next start", "keys", strings.Join(later, ", "))
	}
	return later
}

// reloaded is the event of a new configuration.
func (r *reloader) reloaded(config config, by string) journal.Reloaded {
	event := journal.Reloaded{File: config.Path, By: by, Changed: config.read.Changed(r.current.read)}
	if content, err := os.ReadFile(config.Path); err == nil {
		digest := sha256.Sum256(content)
		event.Digest = hex.EncodeToString(digest[:])
	}
	if !slices.Equal(config.launcher.words, r.current.launcher.words) {
		event.Launcher = config.launcher.words
	}
	now, before := jobexec.LaunchersOf(config.terms(nil)), jobexec.LaunchersOf(r.current.terms(nil))
	if !maps.EqualFunc(now, before, slices.Equal[[]string]) {
		event.Launchers = now
	}
	return event
}
