package main

import (
	"log/slog"
	"time"

	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/pulse"
	"jobd/cmd/internal/systemd"
	jobexec "jobd/exec"
)

type logger = *slog.Logger

// root is what the parts are made from, each by a method of its own.
type root struct {
	config
	log     logger
	begun   time.Time
	next    jobdaemon.Successor // what follows where a client has the worker restarted
	ending  *jobdaemon.Ending
	notices *notices
	memory  *memory
	pulse   *pulse.Pulse // of the loops of all parts
	manager *systemd.Manager
	reading jobdaemon.Reading
	metrics *metrics.Worker // nil: nobody counts
}

// loop gives the pulse of a loop, by its name.
func (r *root) loop(journal *journalPart, name string) jobexec.Pulse {
	return failPulse(journal.journalDir, name, r.pulse.Loop(name))
}
