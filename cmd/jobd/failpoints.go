package main

import (
	jobexec "jobd/exec"
	"jobd/store"
	"jobd/store/mysql"
)

// What a worker is made of, as it is. The binary of this package's tests is a worker, too, that kills
// itself, or hangs, where a test says so: there these are others, see failpoints_test.go.
var (
	failTable  = func(_ string, c mysql.Config) mysql.Config { return c }
	failMirror = func(_ string, c store.Config) store.Config { return c }
	failPulse  = func(_, _ string, p jobexec.Pulse) jobexec.Pulse { return p }
	failWorker = func(_ string, c jobexec.Config) jobexec.Config { return c }
)
