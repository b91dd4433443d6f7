package main

import (
	"io"
	"maps"
	"slices"

	"jobd/cmd/internal/logging"
	jobexec "jobd/exec"
)

// reloader takes over what may change while jobd runs: targets and their
// concurrency, launcher, log levels.
type reloader struct {
	args, environ []string
	config        config // as read last
	log           *logging.Log
	worker        *jobexec.Worker
}

// byReload is who the journal names for changes that the file made.
const byReload = "configuration file"

// reload reads the configuration again and reopens the log. A configuration with a
// mistake changes nothing.
func (r *reloader) reload() {
	if err := r.log.Reopen(); err != nil {
		r.log.Error("log file could not be opened again", "error", err)
	}
	config, err := parseConfig(r.args, r.environ, io.Discard)
	if err != nil {
		r.log.Error("configuration is not taken over; the old one stays in force", "error", err)
		return
	}
	r.log.Warnings(config.warnings)
	r.log.SetLevels(config.log)
	r.worker.SetLauncher(config.launcher.launcher())
	r.targets(config.targets)
	r.config = config
	r.log.Info("configuration was read again", "file", config.path)
}

// targets does what has changed in the file since it was read last: what was changed over
// the wire meanwhile stays.
func (r *reloader) targets(now map[string]int) {
	before := r.config.targets
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, still := now[name]; !still {
			r.done("remove target", name, r.worker.RetireTarget(name, byReload))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if old, there := before[name]; !there {
			r.done("add target", name, r.worker.AddTarget(name, now[name], byReload))
		} else if old != now[name] {
			r.done("set concurrency", name, r.worker.SetConcurrency(name, now[name], byReload))
		}
	}
}

func (r *reloader) done(what, target string, err error) {
	if err != nil {
		r.log.Error("configuration could not be taken over", "change", what, "target", target, "error", err)
	}
}
