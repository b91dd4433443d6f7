//go:build !failpoints

package main

import (
	jobexec "jobd/exec"
	"jobd/store"
	"jobd/store/mysql"
)

// A jobd built with the tag failpoints kills itself, or hangs, where a test says so, see failpoints.go.
// This one does not: what it is made of stays as it is.

func failTable(_ string, c mysql.Config) mysql.Config      { return c }
func failMirror(_ string, c store.Config) store.Config     { return c }
func failPulse(_, _ string, p jobexec.Pulse) jobexec.Pulse { return p }

func failWorker(_ string, c jobexec.Config) jobexec.Config { return c }
