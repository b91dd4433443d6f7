package compat

import (
	"path/filepath"

	"jobd/tests/harness"
)

// fixtures is the folder with what former versions have left.
var fixtures = filepath.Join(harness.Top(), "testdata", "compat")

// version is a former version that wrote something else than the one before, or wrote it in another
// way.
type version struct {
	name   string
	commit string // the last one that wrote so
	// What its worker is told beyond the configuration of all.
	config string
	// What it can do, which is part of its fixture.
	rolls, cancels, plans bool
	refused               string // what a start on its journal says; "": it goes on
}

// The configuration of schedules, as the version that brought them shipped it.
const planned = `use_columns = all
time_zone = Europe/Berlin

[target c]
attempts = 2
backoff = 1m
timeout = 1m
`

// In the order of their times.
var versions = []version{
	{
		name: "schema-1", commit: "9a376d7",
		refused: "version 1 was written before the first release, and is not read any more: " +
			"let the jobd that wrote it end its jobs, then move the folder away",
	},
	{
		name: "schema-2", commit: "6bd8001", rolls: true,
		refused: "version 2 was written before the first release, and is not read any more: " +
			"let the jobd that wrote it end its jobs, then move the folder away",
	},
	{name: "schema-3", commit: "6507ca5", rolls: true},
	{name: "before-marks", commit: "3e0ca45", rolls: true},
	{name: "marks", commit: "0bcdfe1", rolls: true},
	{name: "requests", commit: "51f1986", rolls: true},
	{name: "removals", commit: "f2dd6bc", rolls: true},
	{name: "cancelled", commit: "32ff79a", rolls: true, cancels: true},
	{name: "planned", commit: "f255742", rolls: true, cancels: true, plans: true, config: planned},
}

// Which of the fixture's jobs does what.
const (
	fine     = 1 // it succeeds
	failing  = 2
	byHand   = 3 // its row was manual, and somebody asked for it
	unended  = 4 // it runs when the worker is killed
	queued   = 5 // it is claimed then
	stopped  = 6 // somebody cancels it
	again    = 7 // it fails, and somebody retries it
	hourly   = 8 // its row recurs
	repeated = 9 // it fails, and is to be tried again in a minute
	unheard  = 99
)
