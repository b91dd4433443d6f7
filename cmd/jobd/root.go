package main

import (
	"log/slog"
	"time"

	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/cmd/internal/pulse"
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
}
