package main

import (
	"io"

	"jobd/cmd/internal/logging"
	jobexec "jobd/exec"
)

// reloader takes over what may change while jobd runs: targets and their
// concurrency, launcher, log levels.
type reloader struct {
	args, environ []string
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
	if err := r.worker.SetTargets(config.targets, byReload); err != nil {
		r.log.Error("targets could not be taken over", "error", err)
	}
	r.log.Info("configuration was read again", "file", config.path)
}
