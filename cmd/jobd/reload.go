package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"

	"jobd/cmd/internal/logging"
	jobexec "jobd/exec"
	"jobd/journal"
)

// reloader takes over what may change while jobd runs: targets and their
// concurrency, launcher, log levels.
type reloader struct {
	args, environ []string
	log           *logging.Log
	worker        *jobexec.Worker
	refusals      *refusals
	current       config // that is in force
}

// Who the journal names: for a reload, and for changes that the file made.
const (
	bySignal = "SIGHUP"
	byReload = "configuration file"
)

// reloadRequest is what a reload is called in the journal.
const reloadRequest = "reload"

// reload reads the configuration again and reopens the log. A configuration with a
// mistake changes nothing, nor does one whose taking over can't be journalled.
//
// The order: everything that may be refused is asked first, the table too, and changes nothing. Then reloaded is
// appended, then what it tells takes effect; a crash between the two starts the worker with this very file. What fails after
// the append (the disk filled up meanwhile, or the table that did not answer then refuses a target now) is in the log, and the
// events of each target tell what became of it.
func (r *reloader) reload() {
	if err := r.log.Reopen(); err != nil {
		r.log.Error("log file could not be opened again", "error", err)
	}
	config, err := parseConfig(r.args, r.environ, io.Discard)
	if err == nil {
		err = config.launcher.check()
	}
	if err != nil {
		r.refuse(err)
		return
	}
	if err := r.worker.CheckTargets(config.targets); err != nil {
		r.refuse(err)
		return
	}
	if err := r.worker.Note(r.reloaded(config)); err != nil {
		r.log.Error("configuration is not taken over, because that can't be journalled; the old one stays in force", "error", err)
		return
	}
	r.log.Warnings(config.warnings)
	r.log.SetLevels(config.log)
	r.worker.SetLauncher(config.launcher.launcher())
	if err := r.worker.SetTargets(config.targets, byReload); err != nil {
		r.log.Error("targets could not be taken over", "error", err)
	}
	r.current = config
	r.log.Info("configuration was read again", "file", config.path)
}

// refuse tells that the configuration can't be taken over. Why goes to the log only: the words may quote a line of the file, and
// passwords have no place in a history.
func (r *reloader) refuse(err error) {
	r.log.Error("configuration is not taken over; the old one stays in force", "error", err)
	r.refusals.note(journal.Refused{
		Request: reloadRequest, About: r.current.path, By: bySignal,
		Reason: "the configuration can't be taken over; the worker's log says why",
	})
}

// reloaded is what the journal tells of a new configuration.
func (r *reloader) reloaded(config config) journal.Reloaded {
	told := journal.Reloaded{File: config.path, By: bySignal, Changed: config.values.Changed(r.current.values)}
	if content, err := os.ReadFile(config.path); err == nil {
		digest := sha256.Sum256(content)
		told.Digest = hex.EncodeToString(digest[:])
	}
	if !slices.Equal(config.launcher.words, r.current.launcher.words) {
		told.Launcher = config.launcher.words
	}
	return told
}
